"""A card of review questions in JupyterLab: a click answers, and brings the next one."""

PREPARED = """
import os, tempfile
os.chdir(tempfile.mkdtemp())
os.environ["MHA_COURSE_PROGRESS"] = "on"
from mha_course.exercises import review
from mha_course.exercises.progress_store import remember
remember("attend", "correct")
review()
"""


def test_a_click_answers_a_review_question_and_brings_the_next(lab_page):
    page = lab_page([PREPARED])
    faces = page.locator(".mha-face")
    for at in range(5):
        faces.nth(at).locator(".report", has_text=f"Review {at + 1} of 5.").wait_for()
        assert faces.count() == at + 1
        faces.nth(at).locator("button").first.click()
        assert faces.nth(at).locator(".reason").inner_text()[:2] in ("✔ ", "✘ ")
    page.locator(".parts", has_text="of 5 are right").wait_for()
    assert page.locator(".trouble").all_inner_texts() == [""] * 5
