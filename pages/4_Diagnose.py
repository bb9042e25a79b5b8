"""Diagnose: what does this error mean?"""

from core.ui.diagnose import answer, paste_form
from core.ui.page import page

page("Diagnose", "What does this error mean? Paste it: which tensor it was, who holds the card, what to change.")
text, facts = paste_form()
if text.strip():
    answer(text, facts)
