#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ledger.hpp"
#include "oncebox/testing/child_process.hpp"
#include "oncebox/testing/postgresql_server.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "store_url.hpp"

namespace oncebox::chaos {

using testing::PostgresqlServer;
using workers::Event;
using workers::Instant;
using workers::instant_now;

/// Three processes that enqueue and handle all the while, and whatever happens to their server is
/// to survive. What does not happen in time, or should not happen at all, is thrown.
class ChaosFixture : public ::testing::Test {
 protected:
  ChaosFixture();
  ~ChaosFixture() override;

  /// A server that flushes what it commits. Its data lie in memory where that has room: what the
  /// tests show does not depend on the disk, which takes long to flush.
  [[nodiscard]] testing::PostgresqlServerOptions durable(
      std::vector<testing::PostgresqlSetting> settings = {}) const;

  /// A file that the server can read, also under another user.
  [[nodiscard]] std::string file_for_server(const std::string& name) const;

  /// Starts the processes, each by this command before its own, and waits until all of them work.
  void start_workers(const std::string& url, const std::vector<std::string>& by = {});

  /// Waits until every one of them has taken in and handled this many messages more, which it may
  /// need a while for after a fault.
  void expect_work_goes_on(std::size_t messages = 30);

  /// Waits until a call of every one of them has failed since then: a fault that nobody noticed
  /// would show nothing.
  void expect_all_noticed(Instant since);
  [[nodiscard]] std::size_t failed_calls(Instant since);

  /// Waits for something else, while the processes must live.
  void wait_until(const std::string& what, const std::function<bool()>& condition);

  /// Lets the processes handle what is left and come to their ends, and compares what they wrote
  /// down with what is in the store.
  void expect_nothing_lost(const std::string& url);

 private:
  struct Process {
    std::unique_ptr<testing::ChildProcess> process;
    workers::LedgerReader ledger;
  };

  void stop_workers();
  void require_alive(std::chrono::milliseconds time);

  testing::TemporaryFolder folder_;
  std::vector<Process> processes_;
  int input_of_workers_ = -1;  // they stop when it is closed
};

}  // namespace oncebox::chaos
