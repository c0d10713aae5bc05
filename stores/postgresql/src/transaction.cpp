#include "transaction.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "oncebox/driver/call_scope.hpp"

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
  const bool is_over = CallScope::current().is_over();
  const Deadline soon = deadline_in(Cancellation::kGrace);
  const LimitsOf nobody;
  try {
    connection_.run(kRollBack, kNoParameters, Exchange::changes_nothing,
                    is_over ? std::min(soon, deadline_) : deadline_);
  } catch (...) {
    // The connection is not idle, so it will not be used again, and the server rolls back by
    // itself when it is closed.
  }
}

std::vector<Result> Transaction::exchange(std::span<const Command> commands, Exchange exchange) {
  const std::vector<Preceding> before = std::exchange(before_next_, {});
  std::vector<Command> all;
  all.reserve(before.size() + commands.size());
  for (const Preceding& preceding : before) all.push_back(preceding.command);
  all.insert(all.end(), commands.begin(), commands.end());
  is_open_ = true;
  std::vector<Result> results = connection_.run_all(all, exchange, deadline_);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].check != nullptr) before[i].check(results[i]);
  }
  results.erase(results.begin(), results.begin() + std::ssize(before));
  return results;
}

void Transaction::before_next(const Statement& statement, Check check) {
  before_next_.push_back({{&statement, &kNoParameters}, check});
}

Result Transaction::run(const Statement& statement, const Parameters& parameters) {
  const Command command{&statement, &parameters};
  return std::move(run_all({&command, 1}).front());
}

std::vector<Result> Transaction::run_all(std::span<const Command> commands) {
  return exchange(commands, Exchange::changes_nothing);
}

std::vector<Result> Transaction::commit(std::span<const Command> last) {
  if (!is_open_ && last.empty()) return {};
  const auto is_checked = [](const Preceding& preceding) { return preceding.check != nullptr; };
  if (std::any_of(before_next_.begin(), before_next_.end(), is_checked)) run_all({});
  std::vector<Command> all(last.begin(), last.end());
  all.push_back({&kCommitTransaction, &kNoParameters});
  std::vector<Result> results = exchange(all, Exchange::commits);
  is_open_ = false;
  results.pop_back();
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
