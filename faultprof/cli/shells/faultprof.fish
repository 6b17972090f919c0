# Completes faultprof's commands and options in fish.
complete --command faultprof --no-files \
    --arguments "(env _FAULTPROF_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args _TYPER_COMPLETE_ARGS=(commandline -cp) faultprof)" \
    --condition "env _FAULTPROF_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args _TYPER_COMPLETE_ARGS=(commandline -cp) faultprof"
