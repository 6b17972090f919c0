"""Call graphs of perf report, as people paste them, become the trees that they show."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest

from faultprof.analysis.imports.formats import Choice, Imported, import_text
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.frames import USER

PERF = Path(__file__).parent / "data" / "perf"

# Both trees of the thread about read-fault contention, as they were mailed.
BEFORE = """\
>    for do_read_fault() with 578d7699e5 :
>         -   48.58%     0.04%  usemem           [kernel.vmlinux]            [k] do_read_fault
>            - 48.54% do_read_fault
>               - 44.34% filemap_map_pages
>                    19.45% filemap_map_folio_range
>                    3.22% next_uptodate_folio
>                  + 1.72% folio_wake_bit
>               + 3.29% __do_fault
>                 0.65% folio_wake_bit
>
"""
AFTER = """\
>    for do_read_fault() with c8be038067 :
>         -   72.98%     0.09%  usemem           [kernel.vmlinux]            [k] do_read_fault
>            - 72.89% do_read_fault
>               - 52.70% filemap_map_pages
>                    32.10% next_uptodate_folio   <----- much higher than 578d7699e5
>                  + 12.35% folio_wake_bit
>                  + 1.53% set_pte_range
>               + 12.43% __do_fault
>               + 6.36% folio_wake_bit\t\t<----- higher than 578d7699e5
>               + 0.97% finish_fault
>
>    I have theory that faster filemap_map_order0_folio() brings more contention.
"""
READ = "do_read_fault"
MAP = f"{READ};filemap_map_pages"
BEFORE_TREE = {
    READ: 48.54,
    MAP: 44.34,
    f"{MAP};filemap_map_folio_range": 19.45,
    f"{MAP};next_uptodate_folio": 3.22,
    f"{MAP};folio_wake_bit": 1.72,
    f"{READ};__do_fault": 3.29,
    f"{READ};folio_wake_bit": 0.65,
}
AFTER_TREE = {
    READ: 72.89,
    MAP: 52.70,
    f"{MAP};next_uptodate_folio": 32.10,
    f"{MAP};folio_wake_bit": 12.35,
    f"{MAP};set_pte_range": 1.53,
    f"{READ};__do_fault": 12.43,
    f"{READ};folio_wake_bit": 6.36,
    f"{READ};finish_fault": 0.97,
}
STDIO = """\
# Samples: 5K of event 'cycles:P'
#
# Children      Self  Command  Shared Object      Symbol
# ........  ........  .......  .................  ......
#
    90.00%     1.00%  usemem   [kernel.kallsyms]  [k] do_fault
            |
            |--89.00%--do_fault
            |          do_read_fault
            |          |
            |          |--60.00%--filemap_map_pages
            |          |          |
            |          |           --9.50%--next_uptodate_folio
            |          |
            |           --20.00%--__do_fault
            |                     shmem_fault
            |
             --1.00%--asm_exc_page_fault
                       handle_mm_fault
                       do_fault
"""


def read(text: str, part: int | None = None) -> Imported:
    return import_text(io.BytesIO(text.encode()), "mail.txt", Choice(part=part))


def tree(imported: Imported) -> dict[str, float]:
    """Inclusive percentages of all paths, without what stands for what is not in the text."""
    found: Counter[str] = Counter()
    for path in imported.paths:
        names = [frame.function for frame in path.frames]
        for length in range(1, len(names) + 1):
            if "not in the text" not in names[length - 1]:
                found[";".join(names[:length])] += path.samples
    assert sum(path.samples for path in imported.paths) == pytest.approx(10_000, abs=5)
    return {path: hundredths / 100 for path, hundredths in found.items()}


def functions(imported: Imported) -> dict[str, float]:
    """Inclusive percentage of each function."""
    found: Counter[str] = Counter()
    total = sum(path.samples for path in imported.paths)
    for path in imported.paths:
        # A call graph does not say which file a function without a name is in.
        for name in {frame.function for frame in path.frames if "[" not in frame.function}:
            found[name] += path.samples
    return {name: 100 * count / total for name, count in found.items()}


def test_the_threads_trees_are_reproduced() -> None:
    assert tree(read(BEFORE)) == BEFORE_TREE
    assert tree(read(AFTER)) == AFTER_TREE


def test_an_entrys_own_share_is_kept() -> None:
    (own,) = (p for p in read(BEFORE).paths if [f.function for f in p.frames] == [READ])
    assert own.samples == 4
    rest = [p.samples for p in read(BEFORE).paths if "callees" in p.frames[-1].function]
    assert rest == [4854 - 4434 - 329 - 65 - 4]


def test_annotations_are_kept_with_their_lines() -> None:
    metadata = read(AFTER).metadata
    assert metadata.imported is not None
    assert metadata.imported["annotations"] == [
        {"line": 5, "text": "<----- much higher than 578d7699e5"},
        {"line": 9, "text": "<----- higher than 578d7699e5"},
    ]
    assert metadata.imported["call_graph_lines"] == [2, 10]
    assert metadata.ledger.counters["annotations"] == 2


def test_a_mail_with_several_asks_which() -> None:
    with pytest.raises(FaultprofError) as caught:
        read(BEFORE + AFTER)
    assert caught.value.exit_code == ExitCode.USAGE
    assert "1: lines 2-9, 48.58% do_read_fault of usemem; 2: lines 12-20" in caught.value.hint
    assert tree(read(BEFORE + AFTER, 1)) == BEFORE_TREE
    assert tree(read(BEFORE + AFTER, 2)) == AFTER_TREE
    with pytest.raises(FaultprofError):
        read(BEFORE + AFTER, 3)


@pytest.mark.parametrize("mark", ["", "> ", ">> ", "> > ", ">>>>>>>>> ", "    "])
def test_quoting_makes_no_difference(mark: str) -> None:
    lines = [line.removeprefix(">") for line in AFTER.splitlines()]
    assert tree(read("".join(f"{mark}{line}\n" for line in lines))) == AFTER_TREE


def test_wrapped_lines_are_put_together() -> None:
    wrapped = (
        AFTER.replace("[k] do_read", "[k]\n> do_read")
        .replace("- 52.70% filemap", "- 52.70%\n> filemap")
        .replace("usemem           [kernel", "usemem\n> [kernel")
    )
    assert wrapped.count("\n") == AFTER.count("\n") + 3
    assert tree(read(wrapped)) == AFTER_TREE


def test_words_behind_a_name_are_an_annotation() -> None:
    text = BEFORE.replace(
        "19.45% filemap_map_folio_range", "19.45% filemap_map_folio_range was less"
    )
    assert tree(read(text)) == BEFORE_TREE


def test_the_lines_of_stdio() -> None:
    imported = read(STDIO)
    assert imported.metadata.clock == "cycles"
    above = "asm_exc_page_fault;handle_mm_fault;do_fault"
    read_fault = "do_fault;do_read_fault"
    assert tree(imported) == {
        "do_fault": 89.0,
        read_fault: 89.0,
        f"{read_fault};filemap_map_pages": 60.0,
        f"{read_fault};filemap_map_pages;next_uptodate_folio": 9.5,
        f"{read_fault};__do_fault": 20.0,
        f"{read_fault};__do_fault;shmem_fault": 20.0,
        "asm_exc_page_fault": 1.0,
        "asm_exc_page_fault;handle_mm_fault": 1.0,
        above: 1.0,
    }
    assert imported.account.unread == []


def test_a_chain_of_the_browser_has_one_percentage() -> None:
    text = """\
-   84.00%     0.00%  usemem  [kernel.kallsyms]  [k] asm_exc_page_fault
   - 84.00% asm_exc_page_fault
        exc_page_fault
      - handle_mm_fault
         - 50.00% do_fault
            + do_read_fault
           10.00% do_anonymous_page
"""
    above = "asm_exc_page_fault;exc_page_fault;handle_mm_fault"
    found = tree(read(text))
    assert found[above] == 84.0
    assert found[f"{above};do_fault;do_read_fault"] == 50.0
    assert found[f"{above};do_anonymous_page"] == 10.0


@pytest.mark.parametrize("version", ["6.1", "7.3"])
def test_graphs_from_callee_to_caller_are_turned_round(version: str) -> None:
    imported = read((PERF / f"{version}-report-nochildren.txt").read_text())
    script = read((PERF / f"{version}-default.txt").read_text())
    assert functions(imported) == pytest.approx(functions(script), abs=0.03)
    assert any("other way round" in note.text for note in imported.metadata.ledger.notes)


@pytest.mark.parametrize("name", ["5.10-report", "7.3-report"])
def test_entries_that_repeat_others_are_left_out(name: str) -> None:
    imported = read((PERF / f"{name}.txt").read_text())
    script = read((PERF / f"{name.partition('-')[0]}-default.txt").read_text())
    assert functions(imported) == pytest.approx(functions(script), abs=0.05)
    assert imported.metadata.ledger.counters["entries_that_repeat_others"] > 0
    assert imported.account.unread == []


def test_relative_percentages_are_said_to_lose_something() -> None:
    imported = read((PERF / "6.12-report-fractal.txt").read_text())
    script = functions(read((PERF / "6.12-default.txt").read_text()))
    found = functions(imported)
    assert found.keys() == script.keys()
    # Here do_anonymous_page is "100%" of the callees of __handle_mm_fault, and half of it.
    assert script["do_anonymous_page"] == pytest.approx(33.33, abs=0.01)
    assert found["do_anonymous_page"] == pytest.approx(66.67, abs=0.02)
    assert "-g fractal" in imported.metadata.ledger.verdict


def test_what_calls_the_kernels_entry_is_user_code() -> None:
    imported = read((PERF / "7.3-report-nochildren.txt").read_text())
    frames = {frame for path in imported.paths for frame in path.frames}
    user = {frame.function for frame in frames if frame.resolution == USER}
    assert {"touch", "main"} <= user
    assert not user & {"exc_page_fault", "asm_exc_page_fault", "handle_mm_fault"}


def test_a_line_that_cannot_be_read_is_named() -> None:
    text = BEFORE.replace("3.22% next_uptodate_folio", "3.22%")
    text = text.replace("19.45% filemap_map_folio_range", "19.45%% filemap")
    unread = read(text).account.unread
    assert [(one.line, one.text) for one in unread] == [(5, "19.45%% filemap"), (6, "3.22%")]
