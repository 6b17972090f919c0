"""Pictures and pages in a real browser; run by ``make browser``, which installs one."""
