"""A mutant that doesn't apply any more proves nothing: it is made anew with the change that moved its line."""

import subprocess
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT

MUTANTS = sorted((ROOT / "tests" / "mutants").glob("*.patch"))


@pytest.mark.parametrize("patch", MUTANTS, ids=lambda path: path.stem)
def test_a_mutant_applies_to_the_code_as_it_is(patch: Path) -> None:
    applied = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert applied.returncode == 0, applied.stderr
