def test_panics():
    open("/proc/sysrq-trigger", "w").write("c")
