// What the role of a program needs: exactly what docs/postgresql.md says (IBX-126).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "error_of.hpp"
#include "exercise.hpp"
#include "libpq_keywords.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
}

/// The GRANT statements of the page.
std::vector<std::string> documented_grants() {
  std::ifstream page(ONCEBOX_POSTGRESQL_PAGE);
  std::vector<std::string> grants;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("GRANT ")) grants.push_back(line);
  }
  return grants;
}

class PostgresqlPermissionsTest : public ::testing::Test {
 protected:
  PostgresqlPermissionsTest() : role_("role_of_" + space_.schema()) {
    migrate(space_.options());
    space_.run(fmt::format("CREATE ROLE {} LOGIN", role_));
  }
  ~PostgresqlPermissionsTest() override {
    space_.run(fmt::format("DROP OWNED BY {}", role_));
    space_.run(fmt::format("DROP ROLE {}", role_));
  }

  void grant(std::string statement) {
    replace_all(statement, "infra", space_.schema());
    replace_all(statement, " app;", " " + role_);
    space_.run(statement);
  }

  [[nodiscard]] Options options_of_the_role() const {
    LibpqKeywords keywords = read_libpq_url(testing::shared_postgresql_url());
    keywords["user"] = role_;
    Options options = space_.options();
    options.connection = to_connection_string(keywords);
    options.schema_deployment = SchemaDeployment::off;
    return options;
  }

  /// What the first call that fails says; nothing when all get through.
  [[nodiscard]] std::optional<Error> first_error() {
    try {
      PostgresqlStore store(options_of_the_role(), clock_);
      store.inbox().enqueue({.key = {"shop", "1"}, .topic = "order.created"});
      const auto claimed = store.inbox().claim({.owner = OwnerToken::generate()});
      store.inbox().settle({.delivery = delivery_of(claimed.at(0))});
      store.keys().complete({.key = "a"});
      store.keys().complete({.key = "b", .retention = Duration{1}});
      clock_.advance(Duration{1});
      EXPECT_EQ(store.keys().cleanup(10), 1U);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }

  TestSpace space_;
  testing::FakeClock clock_;
  const std::string role_;
};

TEST_F(PostgresqlPermissionsTest, RoleWithTheDocumentedGrantsCanDoEverythingButDeploy) {
  RecordProperty("requirement", "IBX-126");
  const std::vector<std::string> grants = documented_grants();
  ASSERT_EQ(grants.size(), 3U);
  for (const std::string& statement : grants) grant(statement);
  {
    PostgresqlStore store(options_of_the_role(), clock_);
    exercise(store, clock_);
    EXPECT_EQ(store.migrate().from_version, store.migrate().to_version);
  }
  Options elsewhere = options_of_the_role();
  elsewhere.table_prefix = "other_";
  const Error error = error_of([&] { migrate(elsewhere); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
  EXPECT_NE(std::string(error.what()).find("docs/postgresql.md"), std::string::npos);
  EXPECT_EQ(space_.number("SELECT count(*) FROM pg_class WHERE relowner = "
                          "(SELECT oid FROM pg_roles WHERE rolname = 'role_of_{schema}')"),
            0);
}

TEST_F(PostgresqlPermissionsTest, RoleThatLacksOneOfThemGetsAClearError) {
  RecordProperty("requirement", "IBX-126");
  for (const std::string& statement : documented_grants()) grant(statement);
  ASSERT_FALSE(first_error());
  const std::string schema = space_.schema();
  const std::vector<std::string> rights{
      "SELECT ON ALL TABLES IN SCHEMA " + schema,   "INSERT ON ALL TABLES IN SCHEMA " + schema,
      "UPDATE ON ALL TABLES IN SCHEMA " + schema,   "DELETE ON ALL TABLES IN SCHEMA " + schema,
      "USAGE ON ALL SEQUENCES IN SCHEMA " + schema, "USAGE ON SCHEMA " + schema};
  for (const std::string& right : rights) {
    SCOPED_TRACE(right);
    for (const char* queue : {"message", "work", "done"}) {
      space_.run(fmt::format("DELETE FROM {{schema}}.oncebox_inbox_{}", queue));
    }
    space_.run(fmt::format("REVOKE {} FROM {}", right, role_));
    const std::optional<Error> error = first_error();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument) << error->what();
    const std::string text = error->what();
    EXPECT_NE(text.find("permission denied"), std::string::npos) << text;
    EXPECT_NE(text.find("docs/postgresql.md"), std::string::npos) << text;
    space_.run(fmt::format("GRANT {} TO {}", right, role_));
  }
  EXPECT_FALSE(first_error());
}

TEST_F(PostgresqlPermissionsTest, OwnerOfTheSchemaCanDeployWithoutBeingASuperuser) {
  RecordProperty("requirement", "IBX-114,IBX-126");
  space_.run("DROP SCHEMA {schema} CASCADE");
  space_.run(fmt::format("CREATE SCHEMA {{schema}} AUTHORIZATION {}", role_));
  Options options = options_of_the_role();
  options.schema_deployment = SchemaDeployment::on;
  PostgresqlStore store(options, clock_);
  exercise(store, clock_);
}

TEST_F(PostgresqlPermissionsTest, RoleThatMayHaveFewConnectionsGoesOnWithThoseItHas) {
  RecordProperty("requirement", "IBX-126");
  for (const std::string& statement : documented_grants()) grant(statement);
  space_.run(fmt::format("ALTER ROLE {} CONNECTION LIMIT 2", role_));
  PostgresqlStore store(options_of_the_role(), clock_);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        try {
          for (int i = 0; i < 20; ++i) store.keys().mark_processed("a");
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
  }
  space_.run(fmt::format("ALTER ROLE {} CONNECTION LIMIT 0", role_));
  const Error error = error_of([&] { const PostgresqlStore another(options_of_the_role()); });
  EXPECT_EQ(error.code(), ErrorCode::overloaded) << error.what();
}

}  // namespace
}  // namespace oncebox::postgresql
