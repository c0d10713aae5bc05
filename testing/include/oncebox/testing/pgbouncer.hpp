#pragma once

#include <memory>
#include <string>
#include <vector>

#include "oncebox/testing/postgresql_server.hpp"

namespace oncebox::testing {

/// A real PgBouncer of the test's own before a server, on a free port of 127.0.0.1. It pools by
/// transaction, so that two transactions of one client may run on two connections of the server:
/// what a session remembers, such as prepared statements, is not there the next time. It lets
/// everybody in, and is the superuser towards the server. Stopped and removed as the server is.
class PgBouncer {
 public:
  /// The server must run, and outlive this object. The settings go to the section [pgbouncer] and
  /// win over ours. Throws `not_found`, saying which package to install, when there is no
  /// PgBouncer.
  explicit PgBouncer(const PostgresqlServer& server,
                     const std::vector<PostgresqlSetting>& settings = {});
  ~PgBouncer();
  PgBouncer(const PgBouncer&) = delete;
  PgBouncer& operator=(const PgBouncer&) = delete;

  /// "postgresql://postgres@127.0.0.1:PORT/…"
  [[nodiscard]] std::string url(const std::string& database = "postgres") const;
  [[nodiscard]] int port() const;

  /// What it wrote to its log.
  [[nodiscard]] std::string log() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::testing
