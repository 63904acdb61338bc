"""The notebooks as they are kept: executed in order, with alt text, rendered the same."""

import ast
import copy
import itertools
import re
import subprocess
import sys

import nbformat
import pytest
from lessons import LESSONS, code_cells, prose, read

from mha_course import exercises
from mha_course.cli import authoring, pages
from mha_course.cli.jupyter_hooks import WIDGET_VIEW

NAMES = """
    00_start_here 01_projection 02_head_splitting 03_scaling 04_softmax 05_weighted_sum
    06_concatenation 07_multi_head_attention 08_masks 09_cross_attention 10_positions 11_kv_cache
    12_flash_attention 13_encoder_block 14_vision 15_language_model 16_why_many_heads
    17_what_heads_do 18_real_models 19_bug_hunt
"""  # links to a lesson rely on its name
EXPERIMENTS = {"19_bug_hunt"}  # lessons without an exercise
FREE = {"nbval-ignore-output"}


def texts(output):
    """Return what an output says in words, without the bytes of pictures."""
    data = output.get("data", {})
    page = re.sub(r"base64,[^\"]*", "", data.get("text/html", ""))
    return [output.get("text", ""), data.get("text/plain", ""), page]


def problems(notebook):
    """Say what is wrong with a notebook as it is kept; an empty list when nothing is."""
    found = []
    cells = code_cells(notebook)
    if [cell.execution_count for cell in cells] != list(range(1, len(cells) + 1)):
        found.append("not executed once from top to bottom")
    if notebook.metadata.get("kernelspec") != authoring.KERNEL:
        found.append("foreign kernel")
    if len({cell.id for cell in notebook.cells}) != len(notebook.cells):
        found.append("ids are not unique")
    found += [
        f"{cell.id}: {problem}" for cell in notebook.cells for problem in lecture_problems(cell)
    ]
    for cell in cells:
        free = FREE & set(cell.metadata.get("tags", ()))
        if "execution" in cell.metadata:
            found.append(f"{cell.id}: volatile metadata")
        for output in cell.outputs:
            found += [f"{cell.id}: {problem}" for problem in output_problems(output, free)]
    return found


def lecture_problems(cell):
    if cell.metadata.get("slideshow", {}).get("slide_type") not in pages.TYPES:
        yield "no slide type"
    lecture = cell.metadata.get("lecture", {})
    if cell.cell_type == "markdown" and re.match(r"##? ", cell.source):
        if not lecture.get("minutes", 0) > 0:
            yield "a section without minutes"
        if len(lecture.get("notes", "")) < 60:
            yield "a section without notes"
    elif {"minutes", "notes"} & set(lecture):
        yield "minutes or notes outside the first cell of a section"


def output_problems(output, free):
    if output.output_type == "error":
        yield "error"
    if output.get("name") == "stderr":
        yield "writes to stderr"
    if WIDGET_VIEW in output.get("data", {}):
        yield "widget view, which is an error box without a kernel"
    if "image/png" in output.get("data", {}):
        yield "a picture that plots.show did not show, so that it has no caption"
    if 'base64,"' in "".join(output.get("data", {}).get("text/html", "")):
        yield "a panel whose picture could not be drawn"
    if re.search(r"(?<![=\w])(True|False)\b", output.get("text", "")):
        yield "a bare boolean"
    for text in texts(output):
        if not free and re.search(r"\d\.\d{4}", text):
            yield "more than three decimals"
        if not free and re.search(r"cuda|device=", text):
            yield "a device"
        if re.search(r"/(home|root|Users|work|tmp)/|0x[0-9a-f]{6}", text):
            yield "a path or an address in memory"


def test_names_are_those_of_the_course():
    assert [path.stem for path in LESSONS] == NAMES.split()
    assert {path.suffix for path in authoring.LESSONS.glob("[!.]*") if path.is_file()} == {".ipynb"}


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_is_kept_as_it_should_be(path):
    notebook = read(path)
    assert problems(notebook) == []
    shown = [output.get("data", {}) for cell in code_cells(notebook) for output in cell.outputs]
    assert any("<figure" in data.get("text/html", "") for data in shown)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_all_its_parts(path):
    notebook = read(path)
    heads = re.findall(r"(?m)^#+ .*", prose(notebook))
    assert heads[0].startswith(f"# {int(path.stem[:2])} · ")
    source = "\n".join(cell.source for cell in code_cells(notebook))
    exercises_asked = source.count("check(")
    assert exercises_asked or path.stem in EXPERIMENTS
    parts = {"See it", "Do it", "Break it", "Where it lives", "Recap"}
    for part in parts if exercises_asked else parts - {"Do it"}:
        assert any(line.startswith(f"## {part}") for line in heads), part
    opening = "\n".join(cell.source for cell in notebook.cells[:6])
    for needed in ("**You need**", "**After this lesson you can**"):
        assert needed in opening, needed
    assert authoring.minutes_line(notebook) in opening
    assert source.count("predict(") >= 2


def test_every_lesson_is_set_up_in_the_same_way():
    sources = [code_cells(read(path))[0].source for path in LESSONS]
    assert len({source.partition("\n\nimport ")[0] for source in sources}) == 1


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_what_is_no_lesson_is_folded(path):
    setup, *others = code_cells(read(path))
    nodes = [x for x in ast.walk(ast.parse(setup.source)) if isinstance(x, ast.ImportFrom)]
    names = {name.name for node in nodes for name in node.names}
    assert names >= {"check", "hint", "predict", "solution", "trace"}
    assert setup.metadata.tags == ["setup"]
    for cell in [setup, *others]:
        tagged = authoring.HIDDEN & set(cell.metadata.get("tags", ()))
        if tagged:  # its first line stays in sight
            assert cell.source.startswith("# "), f"{cell.id} does not begin with what it does"
        hidden = cell.metadata.get("jupyter") == {"source_hidden": True}
        assert (hidden and cell.metadata.get("cellView") == "form") == bool(tagged), cell.id


def test_normalising_drops_what_changes_and_what_needs_a_kernel():
    before = read(LESSONS[0])
    notebook = copy.deepcopy(before)
    cells = [cell for cell in code_cells(notebook) if cell.outputs]
    cell = next(cell for cell in cells if cell.outputs[0].output_type == "stream")
    text = cell.outputs[0].text
    cell.outputs[0].text = text[:5]
    cell.outputs.insert(1, nbformat.v4.new_output("stream", text=text[5:]))
    bar = {"text/plain": "  0%|          | 0/600", WIDGET_VIEW: {}}
    cell.outputs.append(nbformat.v4.new_output("display_data", bar))
    cell.metadata["execution"] = {"iopub.execute_input": "now"}
    notebook.metadata["widgets"] = {"state": {}}
    notebook.metadata.language_info["version"] = "3.11.7"
    authoring.normalise(notebook)
    assert notebook == before


@pytest.mark.notebook  # nbval compares the others' outputs
def test_rendering_again_changes_no_byte():
    kept = LESSONS[5].read_text(encoding="utf-8")
    assert lasting(authoring.render(kept)) == lasting(kept)


def lasting(text):
    """Return a notebook without pixels and times, which depend on the machine."""
    text = re.sub(r'"image/png": "[^"]*"', '"image/png": ""', text)
    text = re.sub(r'width=\\"\d+\\" src=\\"data:image/[a-z+]+;base64,[^"]*"', "src", text)
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            cell.outputs = []
    return nbformat.writes(notebook)


text = nbformat.v4.new_markdown_cell
code = nbformat.v4.new_code_cell


def folded(source):
    return code(source, metadata={"tags": ["drawing"]})


WORDS = text("## See it\n" + "word " * 547)  # 550 words
EXERCISE = text("**Exercise `f`** ●●○ 4 minutes. " + "word " * 105)
MOVED = [folded(f"# Show.\n{name}(x)") for name in ("ScalingLab", "HeadExplorer", "ShapeTracer")]
DEEPER = [text("## Deeper: more"), text("### A part\n" + "word " * 545)]
MINUTES = {  # cells, and the minutes of the core and of all
    "550 words": ([WORDS], (5, 5)),
    "551 words": ([WORDS, text("more")], (10, 10)),
    "110 words and what it says": ([WORDS, EXERCISE], (10, 10)),
    "111 words and what it says": ([WORDS, EXERCISE, text("more")], (15, 15)),
    "two that say it": (
        [text("**From memory** ●●● 5 minutes.\n\n**Case 1** ●●○ 4 minutes.")], (10, 10)),
    "60 lines that are not empty": ([WORDS, code("x = 1\n\n" * 60)], (10, 10)),
    "61 lines": ([WORDS, code("x = 1\n" * 61)], (15, 15)),
    "lines that are folded": ([WORDS, folded("# Draw.\n" * 300)], (5, 5)),
    "an import of a lab": ([WORDS, folded("from w import Lab")], (5, 5)),
    "6 for three things to move": ([WORDS, *MOVED], (15, 15)),
    "deeper at the end": ([WORDS, *DEEPER], (5, 15)),
    "deeper at the start": ([*DEEPER, WORDS], (5, 15)),
}  # fmt: skip


@pytest.mark.parametrize("name", MINUTES)
def test_minutes_are_those_of_words_code_exercises_and_things_to_move(name):
    cells, minutes = MINUTES[name]
    assert authoring.minutes(nbformat.v4.new_notebook(cells=cells)) == minutes


def test_the_readme_lists_every_lesson_with_its_minutes():
    rows = re.findall(r"(?m)^\| \d.*", (authoring.LESSONS.parent / "README.md").read_text())
    assert len(rows) == len(LESSONS)
    for row, path in zip(rows, LESSONS, strict=True):
        opening = read(path).cells[0].source
        title = re.search(r"# \d+ · (.+)", opening)[1]
        minutes = re.search(r"About (\d+) minutes", opening)[1]
        assert row.startswith(f"| {int(path.stem[:2])} | [{title}](notebooks/{path.name}) |")
        assert row.endswith(f"| {minutes} |")


def test_every_exercise_stands_in_one_lesson_right_above_its_check():
    found = []
    for path in LESSONS:
        for stub, cell in itertools.pairwise(code_cells(read(path))):
            match = re.fullmatch(r'check\("(\w+)", (\w+)\)', cell.source)
            if match:
                name, answer = match.groups()
                assert name == answer
                assert re.match(rf"(def|class) {name}\b", stub.source), f"{path.stem}: {name}"
                assert stub.source.rstrip().endswith("...")
                assert "○ Not attempted" in texts(cell.outputs[0])[2], f"{path.stem}: {name}"
                found.append(name)
    assert sorted(found) == sorted(exercises.NAMES)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_an_answer_that_raises_does_not_stop_the_page(path):
    # Checks and labs catch what an answer raises; no other cell may depend on it.
    cells = code_cells(read(path))
    names = [match[1] for cell in cells if (match := re.match(r'check\("(\w+)"', cell.source))]
    one = f"(?:{'|'.join(names) or '(?!)'})"
    calls = re.compile(rf"(?<![\w.])(?<!def )(?<!class ){one}\(|\btrace\({one}\b")
    stopped = [
        cell.id
        for cell in cells
        if calls.search(cell.source)
        and "recompute=" not in cell.source  # a widget calls it
        and "raises-exception" not in cell.metadata.get("tags", ())
    ]
    assert stopped == []


def test_every_question_is_asked_once():
    sources = "\n".join(cell.source for path in LESSONS for cell in code_cells(read(path)))
    assert sorted(re.findall(r'predict\("([\w-]+)"\)', sources)) == sorted(exercises.QUESTIONS)


def test_the_readme_counts_right():
    text = (authoring.LESSONS.parent / "README.md").read_text(encoding="utf-8")
    assert f"All {len(exercises.NAMES)} exercises are checked" in text
    assert f"every code cell of {len(LESSONS)} notebooks" in text
    for name in re.findall(r"\]\((?!https:)([^)#]+)\)", text):
        assert (authoring.LESSONS.parent / name).exists(), name


FIGURE = '<figure><img width="9" src="data:image/svg+xml;base64,AA" alt="Two lines."></figure>'


@pytest.mark.notebook
@pytest.mark.parametrize(("kept", "passes"), [(FIGURE.replace("AA", "BB").replace("9", "8"), True),
                                              (FIGURE.replace("Two", "Three"), False)])  # fmt: skip
def test_nbval_compares_what_a_figure_says_and_not_its_bytes(tmp_path, kept, passes):
    output = nbformat.v4.new_output("display_data", {"text/html": kept, "text/plain": "x"})
    source = f"display({{'text/html': {FIGURE!r}, 'text/plain': 'x'}}, raw=True)"
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source, outputs=[output], execution_count=1)]
    )
    notebook.metadata["kernelspec"] = authoring.KERNEL
    nbformat.write(notebook, tmp_path / "figure.ipynb")
    options = ("pytest", "-c", "pyproject.toml", "--nbval", "--nbval-current-env")
    command = [sys.executable, "-m", *options, str(tmp_path / "figure.ipynb")]
    done = subprocess.run(command, cwd=authoring.ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == passes, done.stdout
