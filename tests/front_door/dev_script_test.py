"""Runs ./dev in a copy of its own, with stand-ins for the programs that it calls."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
# What ./dev needs from the system, apart from the programs that the tests replace.
SYSTEM_PROGRAMS = "awk bash cat dirname env grep id mkdir nproc rm sed".split()
NOBODY = 65534


class DevScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        base = pathlib.Path(folder.name)
        base.chmod(0o755)
        self.root = base / "a project"
        self.bin = base / "bin"
        self.calls = base / "calls"
        (self.root / "tools").mkdir(parents=True)
        self.bin.mkdir()
        self.calls.touch()
        self.calls.chmod(0o666)
        shutil.copy(PROJECT / "dev", self.root)
        shutil.copy(PROJECT / "tools/packages.txt", self.root / "tools")
        for name in SYSTEM_PROGRAMS:
            (self.bin / name).symlink_to(shutil.which(name))
        for name in ["cmake", "ctest", "ninja", "g++"]:
            self.stand_in(name)
        self.stand_in("fetch_postgresql.sh")
        (self.bin / "fetch_postgresql.sh").rename(self.root / "tools/fetch_postgresql.sh")

    def stand_in(self, name, output="", status=0):
        """A program that notes how it was called, prints, and exits."""
        script = self.bin / name
        script.write_text(
            f'#!{shutil.which("bash")}\necho "{name} $*" >> "{self.calls}"\n'
            f"cat <<'END'\n{output}\nEND\nexit {status}\n"
        )
        script.chmod(0o755)

    def debian(self, installed, offered):
        self.stand_in("apt-get")
        self.stand_in("dpkg-query", "\n".join(f"installed {name}" for name in installed))
        candidates = "|".join(offered)
        (self.bin / "apt-cache").write_text(
            f'#!{shutil.which("bash")}\ncase $2 in {candidates}) echo "  Candidate: 1.0" ;; '
            '*) echo "  Candidate: (none)" ;; esac\n'
        )
        (self.bin / "apt-cache").chmod(0o755)
        self.stand_in("sudo")
        (self.bin / "sudo").write_text(f'#!{shutil.which("bash")}\nexec "$@"\n')

    def dev(self, *arguments, user=None):
        return subprocess.run(
            [self.root / "dev", *arguments],
            cwd="/",
            user=user,
            env={"PATH": str(self.bin), "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            check=False,
        )

    def calls_of(self, name):
        return [line for line in self.calls.read_text().splitlines() if line.startswith(name)]

    def packages(self, *groups):
        """The first alternative of every package in these groups."""
        lines = (self.root / "tools/packages.txt").read_text().splitlines()
        words = [line.split() for line in lines if line and not line.startswith("#")]
        return [word[1] for word in words if word[0] in groups]

    def test_help_names_every_command(self):
        result = self.dev("help")
        self.assertEqual(result.returncode, 0)
        commands = "run example build test bench fuzz attack simulate lint format clean help"
        for command in commands.split():
            self.assertIn(f"./dev {command}", result.stdout)

    def built(self, path):
        """A stand-in for a program that a build makes."""
        target = self.root / "build/release" / path
        target.parent.mkdir(parents=True)
        self.stand_in(target.name)
        (self.bin / target.name).rename(target)

    def test_run_starts_the_server_with_the_arguments(self):
        self.built("apps/oncebox/oncebox")
        result = self.dev("run", "--port", "0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.calls_of("oncebox"), ["oncebox serve --port 0"])
        self.assertTrue(self.calls_of("cmake --build")[0].endswith(" --target oncebox"))

    def test_examples_run_by_name_and_the_first_one_without(self):
        (self.root / "examples").mkdir()
        for name in ["first_message", "worker"]:
            (self.root / f"examples/{name}.cpp").touch()
        self.built("examples/example_worker")
        self.assertEqual(self.dev("example", "worker", "memory:").returncode, 0)
        self.assertEqual(self.calls_of("example_worker"), ["example_worker memory:"])
        self.dev("example", "sqlite:x.db")
        self.assertTrue(self.calls_of("cmake --build")[-1].endswith(" example_first_message"))
        result = self.dev("example", "nothing")
        self.assertEqual(result.returncode, 1)
        self.assertIn("use one of: first_message worker", result.stderr)

    def test_an_unknown_command_points_to_help(self):
        result = self.dev("tset")
        self.assertEqual(result.returncode, 2)
        self.assertIn("./dev help", result.stderr)

    def test_an_unknown_preset_lists_the_known_ones(self):
        result = self.dev("build", "--preset", "fast")
        self.assertEqual(result.returncode, 1)
        self.assertIn("use dev, release, asan, tsan, coverage or minimal", result.stderr)

    def test_nothing_is_updated_when_nothing_is_missing(self):
        packages = self.packages("build")
        packages[packages.index("libboost1.81-dev")] = "libboost1.83-dev"
        self.debian(installed=packages, offered=packages)
        result = self.dev("build", "--preset", "minimal")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.calls_of("apt-get"), [])
        self.assertEqual(len(self.calls_of("cmake --preset minimal")), 1)

    def test_what_is_missing_is_installed_in_the_version_that_is_offered(self):
        packages = self.packages("build")
        installed = [name for name in packages if name not in ("ccache", "libboost1.81-dev")]
        self.debian(installed, offered=["ccache", "libboost1.83-dev"])
        result = self.dev("build", "--preset", "minimal")
        self.assertEqual(result.returncode, 0, result.stderr)
        update, install = self.calls_of("apt-get")
        self.assertIn(" update", update)
        self.assertIn(" install ", install)
        self.assertIn(" ccache libboost1.83-dev", install)
        self.assertNotIn("cmake", install)

    def test_what_all_three_test_builds_need_is_installed_at_once(self):
        packages = self.packages("build", "test", "sanitize")
        self.debian(installed=self.packages("test"), offered=packages)
        result = self.dev("test")
        self.assertEqual(result.returncode, 0, result.stderr)
        install = self.calls_of("apt-get")[1]
        expected = self.packages("build", "sanitize")
        self.assertEqual(install.split()[-len(expected) :], expected)
        self.assertEqual(len(self.calls_of("apt-get")), 2)

    def test_the_plain_build_has_every_test_when_it_is_asked_for_by_name(self):
        self.dev("test")
        self.assertIn("ONCEBOX_TESTS=left_out", self.calls_of("cmake --preset dev")[-1])
        self.dev("test", "--preset", "dev")
        self.assertIn("ONCEBOX_TESTS=all", self.calls_of("cmake --preset dev")[-1])

    def test_npm_from_elsewhere_is_good_enough(self):
        packages = self.packages("build", "test")
        self.debian(installed=[name for name in packages if name != "npm"], offered=packages)
        self.stand_in("npm")
        result = self.dev("test", "--preset", "dev")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.calls_of("apt-get"), [])
        (self.bin / "npm").unlink()
        self.dev("test", "--preset", "dev")
        self.assertTrue(self.calls_of("apt-get")[-1].endswith(" npm"))

    def test_the_second_postgresql_is_fetched_for_the_tests_with_asan_only(self):
        self.dev("test", "--preset", "tsan")
        self.assertEqual(self.calls_of("fetch_postgresql.sh"), [])
        result = self.dev("test", "--preset", "asan")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            self.calls_of("fetch_postgresql.sh"),
            [f"fetch_postgresql.sh 18 {self.root}/build/postgresql-18"],
        )

    def test_a_postgresql_that_cannot_be_fetched_shows_the_error_of_npm(self):
        shutil.copy(PROJECT / "tools/fetch_postgresql.sh", self.root / "tools")
        for name in ["mktemp", "uname"]:
            (self.bin / name).symlink_to(shutil.which(name))
        (self.bin / "npm").write_text(
            f'#!{shutil.which("bash")}\n'
            '[[ $* == *--silent* ]] || echo "npm error ETARGET" >&2\nexit 1\n'
        )
        (self.bin / "npm").chmod(0o755)
        result = self.dev("test", "--preset", "asan")
        self.assertEqual(result.returncode, 1)
        self.assertIn("npm error ETARGET", result.stderr)
        self.assertIn("PostgreSQL 18 cannot be fetched", result.stderr)
        self.assertEqual(self.calls_of("cmake"), [])

    def test_a_failed_installation_says_what_to_run(self):
        self.debian(installed=[], offered=self.packages("build"))
        self.stand_in("apt-get", status=100)
        result = self.dev("build", "--preset", "minimal")
        self.assertEqual(result.returncode, 1)
        self.assertIn("run as root: apt-get update && apt-get install", result.stderr)
        self.assertEqual(self.calls_of("cmake"), [])

    def test_without_sudo_an_ordinary_user_is_told_what_to_run(self):
        self.debian(installed=[], offered=self.packages("build"))
        (self.bin / "sudo").unlink()
        ordinary_user = NOBODY if os.geteuid() == 0 else None
        result = self.dev("build", "--preset", "minimal", user=ordinary_user)
        self.assertEqual(result.returncode, 1)
        self.assertIn("run as root: apt-get update && apt-get install", result.stderr)
        self.assertEqual(self.calls_of("apt-get"), [])

    def test_another_system_is_told_the_packages_and_goes_on(self):
        result = self.dev("build", "--preset", "minimal")
        self.assertEqual(result.returncode, 0, result.stderr)
        for package in self.packages("build"):
            self.assertIn(package, result.stderr)

    def test_another_system_without_the_tools_stops(self):
        (self.bin / "ninja").unlink()
        result = self.dev("build", "--preset", "minimal")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not found: ninja", result.stderr)

    def test_tests_run_once_over_all_three_trees(self):
        result = self.dev("test", "-R", "memory")
        self.assertEqual(result.returncode, 0, result.stderr)
        joined = (self.root / "build/test/CTestTestfile.cmake").read_text()
        self.assertEqual(
            joined.splitlines(),
            [f'subdirs("{self.root}/build/{preset}")' for preset in ["dev", "asan", "tsan"]],
        )
        self.assertTrue(self.calls_of("ctest")[-1].endswith("-R memory"))

    def test_a_filter_that_matches_nothing_is_an_error(self):
        self.stand_in("ctest", "Total Tests: 0")
        result = self.dev("test", "--preset", "dev", "-R", "nothing")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no test matches: -R nothing", result.stderr)

    def test_figures_of_a_benchmark_come_last(self):
        benchmarks = self.root / "build/release/benchmarks"
        benchmarks.mkdir(parents=True)
        for name in ["one", "two"]:
            self.stand_in(f"bench_{name}", f'{{"bench": "{name}"}}\nwarming {name}')
            (self.bin / f"bench_{name}").rename(benchmarks / f"bench_{name}")
        result = self.dev("bench")
        self.assertEqual(
            result.stdout.split("\n")[-5:],
            ["warming one", "warming two", '{"bench": "one"}', '{"bench": "two"}', ""],
        )
        self.assertEqual(self.dev("bench", "three").returncode, 1)

    def test_every_package_says_why_it_is_needed(self):
        for line in (PROJECT / "tools/packages.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                self.assertRegex(line, r"^(build|test|bench|sanitize|lint|coverage) +[^#]+ # \S")


if __name__ == "__main__":
    unittest.main()
