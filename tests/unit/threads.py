"""The figures of the two mailing-list threads that faultprof grew out of, as they were mailed."""

from __future__ import annotations

from faultprof.recording.frames import UNRESOLVED, Frame
from faultprof.recording.paths import PathCount

HEADING = [
    "578d7699e5c2add8 c8be03806738c86521dbf1e0503 ",
    "---------------- --------------------------- ",
    "         %stddev     %change         %stddev",
    "             \\          |                \\  ",
]

ROWS = [
    "    146.95 ±  8%     -83.0%      24.99 ±  3%  vm-scalability.free_time",
    "    233050           -28.1%     167484        vm-scalability.median",
    "    590.30 ± 12%    -590.2        0.06 ± 45%  vm-scalability.stddev%",
    "  51589606           -27.3%   37516397        vm-scalability.throughput",
]


def quoted(text: str, mark: str = ">> ") -> str:
    """Return ``text`` as an answer quotes it."""
    return "".join(f"{mark}{line}\n" for line in text.splitlines())


ZERO_DAY = quoted(
    "\n".join(
        [
            "commit: ",
            '  578d7699e5 ("proc: nommu: /proc/<pid>/maps: release mmap read lock")',
            '  c8be038067 ("filemap: add filemap_map_order0_folio() to handle order0 folio")',
            "",
            *HEADING,
            *ROWS,
        ]
    )
)

ARRAYS = """\
>> # extra tests on head commit of linus/master
>> # good: [9bacdd8996c77c42ca004440be610692275ff9d0] Merge tag 'for-6.7-rc1-tag'
>>
>> the data is even better than parent:
>>
>>   "vm-scalability.throughput": [
>>     54122867,
>>     58465096,
>>     55888729,
>>     56960948,
>>     56385702,
>>     56392203
>>   ],
>>
>> # extra tests on revert first bad commit
>> # good: [f13a82be4c3252dabd1328a437c309d84ec7a872] Revert "filemap: add"
>>
>>   "vm-scalability.throughput": [
>>     56434337,
>>     56199754,
>>     56214041,
>>     55308070,
>>     55401115,
>>     55709753
>>   ],
"""

ROUNDS = """\
>>>>> the result(run 5 times) shown below on my machine,
>>>>>
>>>>> N=1,
>>>>>                    clear_highpage
>>>>>  folio_zero_range    folio_zero_user
>>>>>               1      69                   74
>>>>>               177
>>>>>               2      57                   62
>>>>>               168
>>>>>               3      54                   58
>>>>>               234
>>>>>               4      54                   58
>>>>>               157
>>>>>               5      56                   62
>>>>>               148
>>>>> avg       58                   62.8
>>>>>   176.8
>>>>>
>>>>>
>>>>> N=100
>>>>>                    clear_highpage
>>>>>  folio_zero_range    folio_zero_user
>>>>>               1    11015                 11309
>>>>>               32833
>>>>>               2    10385                 11110
>>>>>               49751
>>>>>               3    10369                 11056
>>>>>               33095
>>>>>               4    10332                 11017
>>>>>               33106
>>>>>               5    10483                 11000
>>>>>               49032
>>>>> avg     10516.8               11098.4
>>>>>   39563.4
>>>>>
>>>>> N=512
>>>>>                    clear_highpage
>>>>>  folio_zero_range   folio_zero_user
>>>>>               1    55560                 60055
>>>>>              156876
>>>>>               2    55485                 60024
>>>>>              157132
>>>>>               3    55474                 60129
>>>>>              156658
>>>>>               4    55555                 59867
>>>>>              157259
>>>>>               5    55528                 59932
>>>>>              157108
>>>>> avg     55520.4               60001.4
>>>>>  157006.6
"""

TIMES = """\
> > 1) case-anon-w-seq-mt: (2M PMD THP)
> >
> > base:
> > real    0m2.490s    0m2.254s    0m2.272s
> > user    1m59.980s   2m23.431s   2m18.739s
> > sys     1m3.675s    1m15.462s   1m15.030s
> >
> > patched:
> > real    0m2.234s    0m2.225s    0m2.159s
> > user    2m56.105s   2m57.117s   3m0.489s
> > sys     0m17.064s   0m17.564s   0m16.150s
>
> I test case-anon-cow-seq-hugetlb for copy_user_large_folio()
>
> base:
> real    0m6.259s    0m6.197s    0m6.316s
> user    1m31.176s   1m27.195s   1m29.594s
> sys     7m44.199s   7m51.490s   8m21.149s
>
> patched(use copy_user_gigantic_page for 2M hugetlb too)
> real    0m3.182s    0m3.002s    0m2.963s
> user    1m19.456s   1m3.107s    1m6.447s
> sys     2m59.222s   3m10.899s   3m1.027s
>
>>              folio_zero_range   clear_highpage
>> folio_zero_user
>> real    0m1.214s             0m1.111s              0m3.159s
>> user    0m0.000s             0m0.000s              0m0.000s
>> sys     0m1.210s             0m1.109s              0m3.152s
"""


def contention_trees() -> tuple[list[PathCount], list[PathCount]]:
    """Return the two call trees of do_read_fault, in hundredths of a percent.

    As an import makes them: what a node has beyond its callees is its own, and what the text does
    not have is a root beside it.
    """
    return _tree(4858, 4854, _BEFORE), _tree(7298, 7289, _AFTER)


_READ, _MAP = "do_read_fault", "filemap_map_pages"
_BEFORE = {
    (_MAP,): 4434,
    (_MAP, "filemap_map_folio_range"): 1945,
    (_MAP, "next_uptodate_folio"): 322,
    (_MAP, "folio_wake_bit"): 172,
    ("__do_fault",): 329,
    ("folio_wake_bit",): 65,
}
_AFTER = {
    (_MAP,): 5270,
    (_MAP, "next_uptodate_folio"): 3210,
    (_MAP, "folio_wake_bit"): 1235,
    (_MAP, "set_pte_range"): 153,
    ("__do_fault",): 1243,
    ("folio_wake_bit",): 636,
    ("finish_fault",): 97,
}


def _tree(entry: int, inclusive: int, below: dict[tuple[str, ...], int]) -> list[PathCount]:
    own = {(): inclusive, **below}
    for path, count in below.items():
        own[path[:-1]] -= count
    own[()] += entry - inclusive
    rest = PathCount("usemem", (Frame("[not in the text]", "", UNRESOLVED),), 10_000 - entry)
    return [rest] + [
        PathCount("usemem", tuple(map(Frame, (_READ, *path))), count) for path, count in own.items()
    ]
