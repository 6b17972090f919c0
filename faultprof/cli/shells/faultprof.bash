# Completes faultprof's commands and options in bash; files where it knows nothing better.
_faultprof() {
    local IFS=$'\n'
    COMPREPLY=($(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \
        _FAULTPROF_COMPLETE=complete_bash "$1" 2>/dev/null))
}
complete -o default -F _faultprof faultprof
