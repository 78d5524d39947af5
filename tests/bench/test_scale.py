"""The benchmark of large databases looks at the disk first."""

from pathlib import Path

import pytest

from bench.scale import check_space
from dev.refusals import StartRefused


def test_messages_that_do_not_fit_are_refused_with_what_they_need(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match=r"need [\d,]+ GB on the disk and [\d,]+ GB are free"):
        check_space(tmp_path, messages=10**12)
