#include "connection.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "oncebox/error.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

class ConnectionAtCommit : public ::testing::Test {
 protected:
  ConnectionAtCommit() {
    space_.run("CREATE SCHEMA {schema}");
    space_.run("CREATE TABLE {schema}.thing (id integer)");
  }

  // The server answers the statement, and does this when it commits.
  void at_commit(const std::string& command) {
    space_.run("CREATE FUNCTION {schema}.at_commit() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN " +
               command + "; RETURN NULL; END$$");
    space_.run(
        "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON {schema}.thing "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.at_commit()");
  }

  // The code of the error, if it fails.
  std::optional<ErrorCode> insert() {
    try {
      connection_.run_text("INSERT INTO " + space_.schema() + ".thing VALUES (1)",
                           Exchange::commits, deadline_in(std::chrono::seconds{60}));
      return std::nullopt;
    } catch (const Error& error) {
      return error.code();
    }
  }

  std::int64_t stored() { return space_.number("SELECT count(*) FROM {schema}.thing"); }

  TestSpace space_;
  Connection connection_{space_.options()};
};

TEST_F(ConnectionAtCommit, FailureIsAnErrorThoughTheStatementWasAnswered) {
  at_commit("RAISE EXCEPTION 'not so' USING ERRCODE = 'disk_full'");
  EXPECT_EQ(insert(), ErrorCode::overloaded);
  EXPECT_EQ(stored(), 0);
  EXPECT_FALSE(connection_.is_broken());
  EXPECT_TRUE(connection_.is_idle());
  space_.run("DROP TRIGGER at_commit ON {schema}.thing");
  EXPECT_EQ(insert(), std::nullopt);
  EXPECT_EQ(stored(), 1);
}

TEST_F(ConnectionAtCommit, EndOfTheSessionIsAnErrorThoughTheStatementWasAnswered) {
  at_commit("PERFORM pg_terminate_backend(pg_backend_pid())");
  EXPECT_EQ(insert(), ErrorCode::outcome_unknown);
  EXPECT_EQ(stored(), 0);
  EXPECT_TRUE(connection_.is_broken());
}

}  // namespace
}  // namespace oncebox::postgresql
