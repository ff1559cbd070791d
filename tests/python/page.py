"""A part of a page of the docs that a test makes."""
import difflib
import re
import sys


def check(path, mark, text, renew):
    """What stands on the page after the mark must be the text; or is made so."""
    page = path.read_text()
    block = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.S)
    new = block.sub(lambda match: match.group(1) + text + match.group(2), page)
    if renew:
        path.write_text(new)
    elif new != page:
        for line in difflib.unified_diff(page.splitlines(), new.splitlines(), "page", "run", n=0, lineterm=""):
            print(line[:400])
        sys.exit(f"{path} does not say what this run has shown; renew it")
