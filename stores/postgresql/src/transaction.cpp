#include "transaction.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

namespace oncebox::postgresql {

namespace {

const Statement kRollBack{"", "ROLLBACK"};
const Parameters kNoParameters;

}  // namespace

void wait_before_repetition(int repetition) {
  constexpr int kMaxShift = 6;  // 64 ms
  thread_local std::minstd_rand random{std::random_device{}()};
  const int longest_us = 1'000 << std::min(repetition, kMaxShift);
  std::this_thread::sleep_for(
      std::chrono::microseconds(std::uniform_int_distribution(0, longest_us)(random)));
}

Transaction::Transaction(Connection& connection, Deadline deadline)
    : Transaction(connection, deadline, Begun::by_us) {}

Transaction::Transaction(Connection& connection, Deadline deadline, Begun begun)
    : connection_(connection),
      deadline_(deadline),
      begun_(begun),
      is_open_(begun == Begun::by_somebody_else) {
  if (begun == Begun::by_us) before_next(kBeginTransaction);
}

Transaction Transaction::joined(Connection& connection, Deadline deadline) {
  return {connection, deadline, Begun::by_somebody_else};
}

Transaction::~Transaction() {
  if (!is_open_ || begun_ == Begun::by_somebody_else || connection_.is_broken()) return;
  try {
    connection_.run(kRollBack, kNoParameters, Exchange::changes_nothing, deadline_);
  } catch (...) {
    // The connection is not idle, so it will not be used again, and the server rolls back by
    // itself when it is closed.
  }
}

std::vector<Command> Transaction::preceded(std::span<const Command> commands) {
  std::vector<Command> all = std::exchange(before_next_, {});
  all.insert(all.end(), commands.begin(), commands.end());
  return all;
}

void Transaction::before_next(const Statement& statement) {
  before_next_.push_back({&statement, &kNoParameters});
}

Result Transaction::run(const Statement& statement, const Parameters& parameters) {
  const Command command{&statement, &parameters};
  return std::move(run_all({&command, 1}).front());
}

std::vector<Result> Transaction::run_all(std::span<const Command> commands) {
  const std::ptrdiff_t before = std::ssize(before_next_);
  const std::vector<Command> all = preceded(commands);
  is_open_ = true;
  std::vector<Result> results = connection_.run_all(all, Exchange::changes_nothing, deadline_);
  results.erase(results.begin(), results.begin() + before);
  return results;
}

std::vector<Result> Transaction::commit(std::span<const Command> last) {
  if (!is_open_ && last.empty()) return {};
  const std::ptrdiff_t before = std::ssize(before_next_);
  std::vector<Command> all = preceded(last);
  all.push_back({&kCommitTransaction, &kNoParameters});
  is_open_ = true;
  std::vector<Result> results = connection_.run_all(all, Exchange::commits, deadline_);
  is_open_ = false;
  results.pop_back();
  results.erase(results.begin(), results.begin() + before);
  return results;
}

Result run_alone(ConnectionPool& pool, const Statement& statement, const Parameters& parameters,
                 Exchange exchange, Deadline deadline) {
  return repeating([&] {
    const ConnectionPool::Lease connection = pool.acquire(deadline);
    return connection->run(statement, parameters, exchange, deadline);
  });
}

Result run_alone(ConnectionPool& pool, const Statement& statement, const Parameters& parameters,
                 Exchange exchange) {
  return run_alone(pool, statement, parameters, exchange, pool.deadline());
}

}  // namespace oncebox::postgresql
