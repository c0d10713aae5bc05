#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace oncebox::postgresql {

/// How many connections the stores of this process may have to one server together: give the same
/// object to each of them (`Options::budget`). When all are open, a store that needs one takes the
/// place of a connection that another store has not used for longest; when all are in use, calls
/// wait for their turn, in the order in which they came. Every call is safe from any thread.
///
/// A connection that listens counts, and its place is not taken from it. So at most half of the
/// budget may listen: the stores that were opened first. The others poll, and their capabilities do
/// not say `notifies`.
class ConnectionBudget {
 public:
  /// Throws `out_of_range` unless it is from 1 to 10,000.
  explicit ConnectionBudget(std::size_t connections);
  ~ConnectionBudget();
  ConnectionBudget(const ConnectionBudget&) = delete;
  ConnectionBudget& operator=(const ConnectionBudget&) = delete;

  [[nodiscard]] std::size_t connections() const noexcept;
  /// How many are open now, or being opened.
  [[nodiscard]] std::size_t open() const;

 private:
  friend class ConnectionPool;
  struct State;
  struct OfOnePool {};

  /// Without a limit of its own, for a store that shares none.
  explicit ConnectionBudget(OfOnePool only);

  std::unique_ptr<State> state_;
};

/// The hosts and ports that a connection URL or string means, as text: for those who give one
/// budget to all stores of a server. Throws `invalid_argument` when it cannot be read.
[[nodiscard]] std::string server_of(const std::string& connection);

}  // namespace oncebox::postgresql
