"""The menu of lesson 19: choosing does not accuse yet; the button and Enter do, once each."""

ACCUSE = """from mha_course.lessons.l19_bug_hunt.hunt import accuse
accuse(2)"""


def test_mouse_and_keyboard_accuse_once(lab_page):
    page = lab_page([ACCUSE, "import time; time.sleep(6)"], width=1280, height=900, run=False)
    page.locator(".jp-CodeCell").first.click()
    page.keyboard.press("Shift+Enter")
    menu, answer = page.locator(".mha-hunt select"), page.locator(".mha-hunt .answer")
    menu.wait_for()
    assert menu.locator("optgroup").count() == 6
    menu.focus()
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    page.wait_for_timeout(1500)
    assert answer.inner_text() == ""
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.mha-hunt .answer').innerText.includes('✘')")
    assert "The heads are split without the transpose" in answer.inner_text()
    page.locator(".jp-CodeCell").nth(1).click()
    page.keyboard.press("Shift+Enter")  # the kernel is busy
    menu.select_option("scale-by-length")
    page.locator(".mha-hunt button").click()
    assert answer.inner_text() == "checking …"
    page.wait_for_function("document.querySelector('.mha-hunt .answer').innerText.includes('✔')")
