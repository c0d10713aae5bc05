from sample_tree import SampleTree

import check_includes


class CheckIncludes(SampleTree):
    def setUp(self):
        super().setUp()
        self.write("core/include/oncebox/clock.hpp", "#include <chrono>\n")
        clock = '#include "oncebox/clock.hpp"\n'
        self.write("testing/include/oncebox/testing/fake_clock.hpp", clock)
        self.write("stores/memory/include/oncebox/memory/store.hpp", clock)
        self.write("stores/redis/include/oncebox/redis/store.hpp", clock)
        self.write("stores/conformance/include/oncebox/conformance/harness.hpp", "")

    def test_passes_when_dependencies_point_down(self):
        self.write("stores/redis/src/store.cpp", '#include <hiredis.h>\n#include "row.hpp"\n')
        self.write("stores/redis/tests/a_test.cpp", '#include "oncebox/testing/fake_clock.hpp"\n')
        self.write("stores/redis/tests/b_test.cpp", '#include "oncebox/conformance/harness.hpp"\n')
        self.write("core/tests/c_test.cpp", '#include "oncebox/memory/store.hpp"\n')
        self.write("examples/first.cpp", '#include "oncebox/memory/store.hpp"\n')
        self.assert_passes(check_includes.check)

    def test_finds_core_that_includes_a_store(self):
        self.write("core/src/a.cpp", '\n#include "oncebox/memory/store.hpp"\n')
        self.assert_finds(check_includes.check, "core/src/a.cpp:2: core must not include")

    def test_finds_core_that_includes_testing(self):
        self.write("core/src/a.cpp", "#include <oncebox/testing/fake_clock.hpp>\n")
        self.assert_finds(check_includes.check, "core must not include")

    def test_finds_a_store_that_includes_another_store(self):
        self.write("stores/redis/src/a.cpp", '#include "oncebox/memory/store.hpp"\n')
        self.assert_finds(check_includes.check, "stores/redis must not include")

    def test_finds_a_store_that_includes_testing_outside_its_tests(self):
        self.write("stores/redis/src/a.cpp", '#include "oncebox/testing/fake_clock.hpp"\n')
        self.assert_finds(check_includes.check, "stores/redis must not include")

    def test_finds_a_client_library_in_a_public_header(self):
        self.write("stores/redis/include/oncebox/redis/raw.hpp", "#include <hiredis/hiredis.h>\n")
        self.assert_finds(check_includes.check, "raw.hpp:1: a public header includes only")

    def test_finds_a_private_header_in_a_public_one(self):
        self.write("stores/redis/include/oncebox/redis/raw.hpp", '#include "row.hpp"\n')
        self.assert_finds(check_includes.check, "a public header includes only")

    def test_finds_a_header_that_leans_on_another_for_the_standard_library(self):
        text = '#include <vector>\n// std::map\nstd::vector<std::string> names();\n'
        self.write("core/include/oncebox/names.hpp", text)
        self.assert_finds(
            check_includes.check, "names.hpp:3: uses std::string and does not include <string>"
        )

    def test_passes_a_header_that_names_what_it_uses(self):
        self.write("core/include/oncebox/a.hpp", "#include <string>\nstd::string_view a();\n")
        self.write("core/src/a.cpp", "std::vector<int> numbers;\n")
        self.assert_passes(check_includes.check)

    def test_finds_conformance_outside_tests(self):
        self.write("stores/redis/src/a.cpp", '#include "oncebox/conformance/harness.hpp"\n')
        self.assert_finds(check_includes.check, "is for tests only")

    def test_finds_a_header_that_does_not_exist(self):
        self.write("core/src/a.cpp", '#include "oncebox/gone.hpp"\n')
        self.assert_finds(check_includes.check, "no module has the public header oncebox/gone.hpp")

    def test_finds_a_path_out_of_the_module(self):
        self.write("core/src/a.cpp", '#include "../../stores/memory/src/row.hpp"\n')
        self.assert_finds(check_includes.check, "leaves its folder")

    def test_finds_a_module_without_a_rule(self):
        self.write("gadgets/include/oncebox/gadget.hpp", "")
        self.assert_finds(check_includes.check, "no rule for module gadgets")
