"""`ternmq completion`: prints the completion script of a shell."""

import click

from ternmq_command.terminal.printing import echo_lines


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Examples:
      ternmq completion bash >> ~/.bashrc
      ternmq completion zsh >> ~/.zshrc
      ternmq completion fish > ~/.config/fish/completions/ternmq.fish
    """
    from click.shell_completion import get_completion_class

    made_for = get_completion_class(shell)
    assert made_for is not None
    completion = made_for(click.get_current_context().find_root().command, {}, "ternmq", "_TERNMQ_COMPLETE")
    # Not `source()`: for bash it starts a bash, only to look at its version.
    echo_lines(completion.source_template % completion.source_vars())
