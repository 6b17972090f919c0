"""Analysis in, text or a file out. Pure: nothing here touches a kernel or runs a command."""
