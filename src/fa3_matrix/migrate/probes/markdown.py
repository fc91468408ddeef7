"""The table of what the probes observed, for a document."""

from collections.abc import Iterator

from fa3_matrix.migrate.probes.observations import Observations, Probed, Run, Status


def table(observations: Observations) -> str:
    """A sentence on the machine, then a row a probe: what each toolkit was observed to do, and what is documented."""
    toolkits = [f"CUDA {built.version}" for built in observations.toolkits]
    rows = [("question", *toolkits, "documented"), ("---",) * (len(toolkits) + 2)]
    rows += [_row(probed) for probed in observations.probes]
    lines = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([_machine(observations), "", *lines]) + "\n"


def _machine(observations: Observations) -> str:
    releases = " and ".join(built.release for built in observations.toolkits)
    if observations.driver_cuda is None:
        return f"Toolkits {releases}; no driver."
    driver = f"driver {observations.driver or 'of unknown release'}"
    return (
        f"Toolkits {releases} on {observations.gpu or 'no GPU'}, "
        f"{driver}, which supports CUDA {observations.driver_cuda}."
    )


def _row(probed: Probed) -> tuple[str, ...]:
    question = f"**{probed.question}**" if probed.differs else probed.question
    documented = f"{probed.documented} [(source)]({probed.url})"
    return (question, *("<br>".join(_answers(run)) for run in probed.runs), documented)


def _answers(run: Run) -> Iterator[str]:
    if run.status is not Status.OBSERVED:
        yield f"*{run.status}: {_text(run.reason or '')}*"
    for case, answer in run.observed.items():
        yield f"{_text(case)}: {_text(answer)}"


def _text(text: str) -> str:
    """In a cell: one line, and nothing that Markdown takes as its own."""
    line = " ".join(text.split())
    return "".join(f"\\{sign}" if sign in r"\`*_[]<>|" else sign for sign in line)
