#include "test_space.hpp"

#include <fmt/format.h>

#include <random>
#include <stdexcept>
#include <thread>

#include "oncebox/testing/shared_postgresql.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

namespace {

constexpr std::chrono::seconds kPatience{60};

std::string unique_name(std::string_view stem) {
  std::random_device random;
  return fmt::format("{}_{:08x}{:08x}", stem, random(), random());
}

}  // namespace

TestSpace::TestSpace(std::string_view stem) : schema_(unique_name(stem)), connection_(options()) {}

TestSpace::~TestSpace() {
  try {
    repeating([this] { return run("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE"); });
  } catch (const std::exception& error) {
    fmt::print(stderr, "the schema {} stays in the test's server: {}\n", schema_, error.what());
  }
}

Options TestSpace::options() const {
  return {.connection = testing::shared_postgresql_url(),
          .schema = schema_,
          .schema_deployment = SchemaDeployment::on,
          .max_connections = 4,
          .call_timeout = kPatience,
          .connect_timeout = kPatience};
}

Result TestSpace::run(const std::string& sql) {
  return connection_.run_text(fmt::format(fmt::runtime(sql), fmt::arg("schema", schema_)),
                              Exchange::changes_nothing, deadline_in(kPatience));
}

std::int64_t TestSpace::number(const std::string& sql) {
  return run(fmt::format("SELECT ({})::bigint", sql)).int64(0, 0);
}

std::string TestSpace::text(const std::string& sql) {
  return std::string(run(fmt::format("SELECT ({})::text", sql)).bytes(0, 0));
}

void TestSpace::wait_until_somebody_waits_for_a_lock() {
  const Deadline give_up = deadline_in(kPatience);
  const std::string waiting =
      "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE "
      "'%{schema}%'";
  while (number(waiting) == 0) {
    if (time_left(give_up) <= std::chrono::milliseconds{0}) {
      throw std::runtime_error("nobody waits for a lock");
    }
    std::this_thread::yield();
  }
}

}  // namespace oncebox::postgresql
