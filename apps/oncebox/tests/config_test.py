"""The configuration of the server: where it comes from, and what is wrong with it."""

import re
import unittest

from program import ProgramTest


class Configuration(ProgramTest):
    def validate(self, *arguments, **options):
        return self.json("validate", *arguments, **options)

    def complaints(self, toml="", *arguments, variables=None):
        """What is wrong with this file, a line for each."""
        self.write("bad.toml", toml)
        text = self.err("validate", "-c", "bad.toml", *arguments, code=78, variables=variables)
        return text.removeprefix("oncebox: ").splitlines()

    def test_without_anything_there_is_one_sqlite_store(self):
        self.assertEqual(
            self.validate(),
            {
                "valid": True,
                "file": "",
                "stores": ["default"],
                "discovery": False,
                "webhooks": 0,
            },
        )

    def test_the_file_is_looked_for_in_order(self):
        self.write("oncebox.toml", '[[stores]]\nname = "here"\nurl = "memory:"\n')
        self.write("other.toml", '[[stores]]\nname = "other"\nurl = "memory:"\n')
        self.write("flag.toml", '[[stores]]\nname = "flag"\nurl = "memory:"\n')
        self.assertEqual(self.validate()["stores"], ["here"])
        other = {"ONCEBOX_CONFIG": "other.toml"}
        self.assertEqual(self.validate(variables=other)["stores"], ["other"])
        self.assertEqual(self.validate("-c", "flag.toml", variables=other)["stores"], ["flag"])
        self.err("validate", "--config", "missing.toml", code=66)

    def test_flags_win_over_the_environment_and_that_over_the_file(self):
        self.write("oncebox.toml", '[[stores]]\nname = "file"\nurl = "memory:"\n')
        variables = {"ONCEBOX_STORES": "a=memory: b=sqlite:x.db?readers=1"}
        self.assertEqual(self.validate(variables=variables)["stores"], ["a", "b"])
        by_flag = self.validate("--store", "c=memory:", variables=variables)
        self.assertEqual(by_flag["stores"], ["c"])
        self.assertEqual(self.validate("--store", "sqlite:y.db?readers=1")["stores"], ["default"])

    def test_the_default_file_loads_and_so_does_all_that_is_commented_out(self):
        text = self.out("serve", "--print-config")
        self.write("as_it_is.toml", text)
        self.assertEqual(self.validate("-c", "as_it_is.toml")["stores"], ["default"])
        every_key = re.sub(r"(?m)^#(?=[a-z\[])", "", text)
        self.assertGreater(len(re.findall(r"(?m)^[a-z_]+ = ", every_key)), 35)
        self.write("every_key.toml", every_key)
        self.assertEqual(self.validate("-c", "every_key.toml")["stores"], ["default"])

    def test_every_key_has_a_variable_and_can_be_set_by_a_flag(self):
        text = self.out("serve", "--print-config")
        section = ""
        keys = 0
        for line in text.splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            key = re.match(r"#([a-z_]+) = (.*)", line)
            if not key or not section or key[1] in ("name", "url"):
                continue
            keys += 1
            path = f"{section}.{key[1]}"
            value = key[2].strip('"[]')
            variable = "ONCEBOX_" + path.upper().replace(".", "_")
            self.assertIn(f"# {variable}\n", text)
            self.validate("--set", f"{path}={value}", variables={variable: value})
            if value and not re.search(r"host|token_variable", path):
                bad = {variable: "\x01"}
                self.assertIn(variable, self.err("validate", code=78, variables=bad))
        self.assertGreater(keys, 30)

    def test_unknown_keys_are_errors_with_the_line_and_the_nearest_name(self):
        self.assertEqual(
            self.complaints(
                '[listen]\nprot = 1\n[lmits]\nmax_body_bytes = 1\n[[store]]\nname = "x"\n'
            ),
            [
                "bad.toml:2: there is no key listen.prot (did you mean listen.port?)",
                "bad.toml:4: there is no key lmits.max_body_bytes "
                "(did you mean limits.max_body_bytes?)",
                "bad.toml:5: there is no list [[store]] (did you mean stores?)",
            ],
        )
        (complaint,) = self.complaints("", "--set", "log.levle=info")
        self.assertEqual(complaint, "--set: there is no key log.levle (did you mean log.level?)")

    def test_values_of_the_wrong_kind_are_errors(self):
        for toml, said in [
            ('listen.port = "80"', "bad.toml:1: listen.port: this must be a whole number"),
            ("listen.port = 65536", "from 0 to 65535"),
            ("listen.host = 1", "a text in quotes"),
            ("limits.idle_timeout = 30", 'a duration in quotes, such as "30s"'),
            ('limits.idle_timeout = "30"', '"30" is not a duration'),
            ('limits.max_body_bytes = "8MB"', '"8MB" is not a size'),
            ("limits.max_connections = -1", "not negative"),
            ("limits.max_connections = 1.5", "a whole number"),
            ("listen.allow_anonymous_remote = 1", "true or false"),
            ('log.level = "waring"', "did you mean warning?"),
            ("server.cors_origins = [1]", "only texts"),
            ("listen.host = 1979-05-27", "dates and times"),
            ('server.drain_timeout = "25h"', "at most 1d"),
            ("limits.max_body_bytes = 1", "limits.max_body_bytes"),
            ("listen.port = ", "bad.toml:1: "),
            ("listen.port = 1\nlisten.port = 2", "bad.toml:2: "),
        ]:
            with self.subTest(toml=toml):
                self.assertIn(said, "\n".join(self.complaints(toml)))

    def test_stores_and_webhooks_must_fit_together(self):
        complaints = self.complaints(
            """
            [[stores]]
            name = "a b"
            url = "memory:"
            [[stores]]
            name = "twice"
            url = "nonsense-s3cret"
            [[stores]]
            name = "twice"
            url = "memory:"
            [[webhooks]]
            name = "hook"
            store = "missing"
            scheme = "strip"
            secrets = ["s3cret", "literal:x"]
            [[webhooks]]
            name = "other"
            secrets = ["env:NOT_SET_ANYWHERE"]
            [[webhooks]]
            name = "third"
            secrets = ["file:missing"]
            """
        )
        text = "\n".join(complaints)
        for said in [
            '"a b" is no name for a store',
            '"twice" is there twice',
            "the URL of store twice:",
            'there is no store "missing"',
            "did you mean stripe?",
            'a secret is written as "env:NAME"',
            "the environment variable NOT_SET_ANYWHERE is not set",
            "missing cannot be read",
        ]:
            self.assertIn(said, text)
        self.assertNotIn("s3cret", text)

    def test_webhooks_with_secrets_from_everywhere_are_valid(self):
        self.write("secret", "from a file\n")
        self.write(
            "oncebox.toml",
            """
            [[webhooks]]
            name = "stripe"
            scheme = "stripe"
            secrets = ["env:HOOK_SECRET", "file:secret", "literal:whsec_x"]
            tolerance = "10m"
            [[webhooks]]
            name = "shop"
            scheme = "hmac"
            secrets = ["literal:x"]
            signature_header = "X-Signature"
            signature_prefix = "sha512="
            signature_algorithm = "sha512"
            signature_encoding = "base64"
            source = "shop-{header:X-Shop}"
            message_id = "{json:/id}"
            topic = "{header:X-Topic}"
            partition_key = "{json:/customer}"
            """,
        )
        self.assertEqual(self.validate(variables={"HOOK_SECRET": "x"})["webhooks"], 2)

    def test_a_variable_that_looks_like_a_slip_is_warned_of(self):
        result = self.run_program("validate", variables={"ONCEBOX_LISTEN_PROT": "1"})
        self.assertIn("did you mean ONCEBOX_LISTEN_PORT?", result.stderr.decode())
        # What Kubernetes sets for a service of this name is none.
        cluster = {"ONCEBOX_PORT": "tcp://10.0.0.1:80", "ONCEBOX_SERVICE_HOST": "10.0.0.1"}
        self.assertEqual(self.run_program("validate", variables=cluster).stderr, b"")

    def test_plain_http_for_notices_is_warned_of(self):
        secret = "notices.secret=literal:whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        url = "notices.url=http://ops.example/hook"
        result = self.run_program("validate", "--set", secret, "--set", url)
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"warning: notices.url", result.stderr)

    def test_stores_are_opened_when_asked_for(self):
        url = "postgresql://nobody:s3cret@127.0.0.1:1/x"
        self.validate("--store", url)
        text = self.err("validate", "--connect", "--store", f"pg={url}", code=69)
        self.assertIn("store pg: ", text)
        self.assertNotIn("s3cret", text)
        self.validate("--connect", "--store", "sqlite:new.db")
        self.assertTrue((self.folder / "new.db").exists())


if __name__ == "__main__":
    unittest.main()
