"""The command line itself: help, mistakes, exit codes, completion, the manual and the reference."""

import re
import shutil
import subprocess
import unittest

from program import PATIENCE_S, PROJECT, ProgramTest

COMMANDS = [
    *("serve validate send work get list stats migrate bench version completion".split()),
    *("health,dead list,dead groups,dead show,dead revive,dead purge".split(",")),
    *("keys get,keys release,keys mark".split(",")),
]


class HelpAndMistakes(ProgramTest):
    def test_every_command_has_help_with_an_example(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                text = self.out(*command.split(), "--help")
                self.assertIn(f"usage: oncebox {command}", text)
                self.assertIn("Examples:", text)
                self.assertRegex(text, rf"(?m)^  .*oncebox {command}")

    def test_the_help_lists_all_commands_and_exit_codes(self):
        text = self.out("--help")
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command.split()[0]}  ")
        for code in (0, 1, 2, 65, 66, 69, 70, 74, 75, 78):
            self.assertRegex(text, rf"(?m)^ *{code}  \S")
        self.assertNotRegex(text, r"(?m)^  man ")

    def test_mistakes_end_with_code_2_and_name_what_was_meant(self):
        for arguments, said in [
            ([], "a command is missing"),
            (["lst"], "did you mean list?"),
            (["dead", "purg"], "did you mean purge?"),
            (["list", "--staet", "dead"], "did you mean --state?"),
            (["list", "--status", "ded"], "did you mean dead?"),
            (["list", "--limit", "many"], '--limit: "many" is not a whole number'),
            (["list", "--limit"], "--limit"),
            (["list", "--limit", "1", "--limit", "2"], "--limit"),
            (["list", "surplus"], "one argument too many"),
            (["get"], "ID is missing"),
            (["work"], "COMMAND"),
            (["work", "--", "no-such-program"], "no program"),
            (["send", "--data", "x"], "--topic is missing"),
            (["send", "--topic", "x", "--ndjson", "-"], "--ndjson goes only with"),
            (["send", "-t", "x", "-d", "y", "-f", "z"], "exclude each other"),
            (["dead", "revive"], "Give ids, a filter"),
            (["dead", "purge", "--limit", "1"], "Give ids, a filter"),
            (["keys", "release", "k"], "--lease-id is missing"),
            (["keys", "mark", "k", "--lease-id", "zero"], "UUID"),
            (["completion", "csh"], "bash, zsh, fish"),
            (["list", "--url", "tape:/dev/st0"], "no store for tape"),
            (["list", "--url", "nonsense"], "scheme"),
            (["send", "-t", "x", "-d", "y", "--due", "soon"], "duration"),
            (["send", "-t", "x", "-d", "y", "--priority", "101"], "100"),
            (["stats", "--interval", "0"], "interval"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(said, self.err(*arguments, code=2))

    def test_what_people_try_first_works(self):
        self.assertEqual(self.out("help", "dead", "list"), self.out("dead", "list", "--help"))
        self.assertEqual(self.out("help"), self.out("--help"))
        self.assertEqual(self.out("--version"), self.out("version"))

    def test_words_behind_two_dashes_are_no_options(self):
        self.send("--odd")
        self.assertIn("--odd", self.out("get", "--", "--odd"))

    def test_values_with_brackets_commas_and_nothing_in_them_stay_whole(self):
        for message_id, data in [("[a,b]", "[1,2]"), ("a,b", "x,y"), ("empty", "")]:
            self.send(message_id, data=data)
            self.assertEqual(self.out("get", "--payload", message_id), data)
        self.out("send", "--id=none", "--topic=x", "--data=")
        self.assertEqual(self.out("get", "--payload", "none"), "")

    def test_codes_tell_what_can_be_done(self):
        self.err("get", "missing", code=1)
        self.err("list", "--url", "postgresql://nobody:s3cret@127.0.0.1:1/x", code=69)
        self.err("send", "-t", "x", "--file", "missing", code=66)
        self.err("send", "--ndjson", "missing", code=66)
        self.err("list", "--token-file", "missing", "--url", "http://127.0.0.1:1", code=66)
        self.err("send", "--ndjson", "-", code=65, data="{}\n")
        self.err("validate", "--set", "listen.port=x", code=78)

    def test_no_password_is_ever_shown(self):
        for arguments in [("list",), ("stats",), ("migrate",), ("bench",)]:
            url = "postgresql://nobody:s3cret@127.0.0.1:1/x?nonsense=1"
            result = self.run_program(*arguments, "--url", url, code=2)
            self.assertNotIn(b"s3cret", result.stdout + result.stderr)

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "wb") as full:
            process = self.start("version", stdout=full, stderr=subprocess.PIPE)
            _, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 74)
        self.assertIn(b"cannot be written", err)


class GeneratedPages(ProgramTest):
    def test_the_reference_page_is_what_the_program_says(self):
        self.assertEqual(
            (PROJECT / "docs/cli.md").read_text(),
            self.out("man", "--markdown"),
            "make it anew: oncebox man --markdown > docs/cli.md",
        )

    def test_the_default_file_is_what_the_program_says(self):
        self.assertEqual(
            (PROJECT / "apps/oncebox/oncebox.toml").read_text(),
            self.out("serve", "--print-config"),
            "make it anew: oncebox serve --print-config > apps/oncebox/oncebox.toml",
        )

    def test_the_manual_has_every_command_and_no_warning(self):
        page = self.write("oncebox.1", self.out("man"))
        for command in COMMANDS:
            self.assertIn(f'.SS "{command}"', page.read_text())
        for lint in (
            ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page)],
            ["groff", "-man", "-Tascii", "-wall", "-z", "-K", "utf8", str(page)],
        ):
            environment = {**self.environment(), "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""}
            result = subprocess.run(
                lint, env=environment, capture_output=True, text=True, check=False
            )
            self.assertEqual((result.returncode, result.stderr), (0, ""), lint)


class Completion(ProgramTest):
    def complete(self, *words):
        """What bash offers for the last of these words."""
        self.write("oncebox.bash", self.out("completion", "bash"))
        quoted = " ".join(f"'{word}'" for word in words)
        script = (
            f"source oncebox.bash; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
            '_oncebox; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        result = subprocess.run(
            ["bash", "-u", "-c", script],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.split()

    def test_bash_offers_commands_options_values_and_files(self):
        self.assertEqual(self.complete("oncebox", "ver"), ["version"])
        self.assertIn("serve", self.complete("oncebox", ""))
        self.assertNotIn("man", self.complete("oncebox", ""))
        self.assertEqual(
            self.complete("oncebox", "dead", ""),
            ["list", "groups", "show", "revive", "edit", "history", "purge"],
        )
        self.assertEqual(self.complete("oncebox", "dead", "revive", "--dr"), ["--dry-run"])
        self.assertEqual(self.complete("oncebox", "list", "--status", "d"), ["done", "dead"])
        self.assertEqual(self.complete("oncebox", "completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.complete("oncebox", "list", "--topic", ""), [])
        (self.folder / "orders.ndjson").touch()
        self.assertEqual(self.complete("oncebox", "send", "--ndjson", "ord"), ["orders.ndjson"])

    def test_every_option_of_the_help_is_offered(self):
        for command in COMMANDS:
            words = command.split()
            options = set(re.findall(r"(?m)^  (?:-\w, |    )(--[\w-]+)", self.out(*words, "-h")))
            self.assertEqual(set(self.complete("oncebox", *words, "--")), options, command)

    def test_the_scripts_of_all_shells_are_sound(self):
        for shell, check in [
            ("bash", ["bash", "-n"]),
            ("zsh", ["zsh", "-n"]),
            ("fish", ["fish", "--no-execute"]),
        ]:
            self.assertIsNotNone(shutil.which(shell), f"{shell} is missing: tools/packages.txt")
            script = self.write(f"oncebox.{shell}", self.out("completion", shell))
            result = subprocess.run(
                [*check, script],
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual((result.returncode, result.stderr), (0, ""), shell)

    def test_fish_offers_commands_and_options(self):
        script = self.write("oncebox.fish", self.out("completion", "fish"))
        for line, expected in [
            ("oncebox dead ", {"list", "groups", "show", "revive", "edit", "history", "purge"}),
            ("oncebox list --status d", {"done", "dead"}),
        ]:
            result = subprocess.run(
                ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
                capture_output=True,
                text=True,
                check=False,
            )
            offered = {row.split("\t")[0] for row in result.stdout.splitlines()}
            self.assertEqual(offered, expected, result.stderr)


if __name__ == "__main__":
    unittest.main()
