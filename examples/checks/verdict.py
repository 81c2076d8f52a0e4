#!/usr/bin/env python3
"""Says in words and by its exit code what a scheduled plan has found:

    terraform plan -json -input=false | python3 verdict.py

0  all is well
1  this program failed
2  drift: an apply would change something
3  a check failed
4  findings: something that no apply repairs changes what happens to messages
5  the plan failed, or the broker refused the user
6  the broker did not answer

Everything is printed. If there is more than one thing to say, the highest number is the exit code.
"""
import json
import sys

DRIFT, CHECK, FINDING, ERROR, SILENT = 2, 3, 4, 5, 6
WORDS = {DRIFT: "drift", CHECK: "failed check", FINDING: "finding", ERROR: "error", SILENT: "no answer"}

# The provider's summaries for a broker that does not answer.
NO_ANSWER = {
    "RabbitMQ: broker not reachable",
    "RabbitMQ: no secure connection",
    "RabbitMQ: broker not available",
    "RabbitMQ: broker does not answer",
}
# And for a user whom it refuses.
NOT_ALLOWED = {
    "RabbitMQ: authentication failed",
    "RabbitMQ: permission denied",
}
# How the provider's summary begins for what a refresh has found that the next apply repairs.
DRIFTED = (
    "Objects are not as declared",
)
# How the provider's summaries begin for what a refresh or a plan has found.
FINDINGS = (
    "Something changes what happens to messages",
    "Messages do not arrive",
    "Destination refuses messages when it is full",
    "Destinations take the same messages",
    "Levels are not those of the cascade",
)


def kind(diagnostic):
    """The number for a diagnostic, None for one that does not matter."""
    summary, snippet = diagnostic["summary"], diagnostic.get("snippet") or {}
    if diagnostic["severity"] == "error":
        return SILENT if summary in NO_ANSWER else ERROR
    if (snippet.get("context") or "").startswith("check "):
        if summary in NO_ANSWER:
            return SILENT
        if summary in NOT_ALLOWED:
            return ERROR
        if summary == "Check block assertion known after apply":
            return None
        about = [value["traversal"] for value in snippet.get("values") or []]
        return FINDING if any(name.endswith(".findings") for name in about) else CHECK
    if summary.startswith(DRIFTED):
        return DRIFT
    return FINDING if summary.startswith(FINDINGS) else None


def verdicts(lines):
    """All that there is to say, as pairs of a number and a text."""
    ended = False
    for line in lines:
        try:
            message = json.loads(line)
        except ValueError:
            yield ERROR, line
            continue
        if message.get("type") == "diagnostic":
            diagnostic = message["diagnostic"]
            number = kind(diagnostic)
            if number:
                where = diagnostic.get("address") or (diagnostic.get("snippet") or {}).get("context")
                yield number, ": ".join(filter(None, [where, diagnostic["summary"], diagnostic["detail"]]))
            ended = ended or diagnostic["severity"] == "error"
        elif message.get("type") == "planned_change":
            change = message["change"]
            if change["action"] not in ("read", "noop"):  # a probe in a check is read again in every apply
                yield DRIFT, f'{change["resource"]["addr"]}: {change["action"]}'
        elif message.get("type") == "change_summary":
            ended = True
    if not ended:
        yield ERROR, "the plan is not complete"


def one_line(text):
    """A text in which nothing is left that a terminal or a CI log would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in " ".join(text.split()))


def main():
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    sys.stdout.reconfigure(errors="backslashreplace")
    exit_code = 0
    for number, text in verdicts(line for line in sys.stdin if line.strip()):
        print(f"{WORDS[number]}: {one_line(text)}")
        exit_code = max(exit_code, number)
    if exit_code == 0:
        print("all is well")
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
