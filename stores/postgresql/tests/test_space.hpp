#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "connection.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"

namespace oncebox::postgresql {

/// A schema of a test's own in the server that the tests share. Nobody else has its name; it is
/// dropped, with all that is in it, when this object is destroyed.
class TestSpace {
 public:
  /// `stem` begins the schema's name.
  explicit TestSpace(std::string_view stem = "test");
  ~TestSpace();
  TestSpace(const TestSpace&) = delete;
  TestSpace& operator=(const TestSpace&) = delete;

  [[nodiscard]] const std::string& schema() const noexcept { return schema_; }

  /// How a store is opened there, straight to the server, with schema deployment on.
  [[nodiscard]] Options options() const;

  /// Runs one statement as the superuser. `{schema}` in it stands for the name of the schema.
  Result run(const std::string& sql);
  /// The first value that it answers, which is a number or a text.
  [[nodiscard]] std::int64_t number(const std::string& sql);
  [[nodiscard]] std::string text(const std::string& sql);

  /// Throws when nobody does after a minute.
  void wait_until_somebody_waits_for_a_lock();

 private:
  const std::string schema_;
  Connection connection_;
};

}  // namespace oncebox::postgresql
