# Completion knows commands, options, their choices and files.
esscher help --completion bash >complete.bash
cat >ask.bash <<'END'
. ./complete.bash
ask() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _esscher
    echo "${COMPREPLY[@]}"
}
ask esscher conv
ask esscher converge --la
ask esscher converge --law sph
ask esscher converge --replicates ""
touch a.run
ask esscher export a.
ask esscher export --js
ask esscher help hard
END
bash -eu ask.bash
esscher help --completion zsh >_esscher && head -1 _esscher
if command -v zsh >/dev/null; then zsh -n _esscher; fi
esscher help --completion fish
echo "rc=$?"
