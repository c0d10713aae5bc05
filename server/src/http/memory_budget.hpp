#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "oncebox/detail/mutex.hpp"

namespace oncebox::server {

/// Who makes the server hold something.
enum class MemoryPart {
  connections,  ///< sockets and what was read from them: nobody knows yet whose it is
  strangers,    ///< requests to routes that need no token, and their answers
  callers,      ///< all other requests and answers
};
inline constexpr std::size_t kMemoryParts = 3;

[[nodiscard]] std::string_view to_string(MemoryPart part) noexcept;

class MemoryBudget;

/// Somebody who makes the server hold something: an address, or whoever has a token.
struct MemoryAccount {
  explicit MemoryAccount(std::shared_ptr<MemoryBudget> budget) noexcept
      : memory(std::move(budget)) {}

  const std::shared_ptr<MemoryBudget> memory;
  /// Of each part; changes under the lock of the budget.
  std::array<std::atomic<std::size_t>, kMemoryParts> held{};
};

/// One address. Its connections share it.
struct ClientAddress : MemoryAccount {
  using MemoryAccount::MemoryAccount;

  std::atomic<std::size_t> connections = 0;
};

/// Counts the bytes that clients make the server hold, over all connections: one budget for bodies
/// and lines that come in, answers that go out, and connections. Whoever wants to hold something
/// asks here before, and is refused when there is no room. A refusal changes nothing, not even for
/// a moment. Safe from any thread.
///
/// Every part has a limit of its own, so that none takes what the others need: connections have
/// half of the budget and strangers a quarter, which leaves a quarter for callers with a token.
/// Strangers and callers together have three quarters; the other quarter is for connections, also
/// when what was forced has taken more than there is. The last eighth of the budget is for callers.
///
/// In the parts of strangers and callers everybody has a share: an address of the first, a token of
/// the second. Once half of the part is taken, an address that has an eighth of it gets no more,
/// nor a token that has a third. The budget's last eighth is for tokens that have less than an
/// eighth of their part.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t bytes) noexcept;

  /// False, and counts nothing, when there is no room.
  [[nodiscard]] bool take(MemoryPart part, std::size_t bytes, MemoryAccount& account) noexcept;
  /// Counts in any case: for what is there already.
  void force(MemoryPart part, std::size_t bytes, MemoryAccount& account) noexcept;
  void give_back(MemoryPart part, std::size_t bytes, MemoryAccount& account) noexcept;

  /// Less than a quarter is left, of all or of this part: clients that hold a lot and do not go on
  /// have to go.
  [[nodiscard]] bool is_short(MemoryPart part) const noexcept;
  /// How much must be given back, of this part, before so much can be taken; 0 when there is room.
  [[nodiscard]] std::size_t shortage(MemoryPart part, std::size_t bytes) const noexcept;

  /// How much may be taken now; somebody else may be faster.
  [[nodiscard]] std::size_t room(MemoryPart part) const noexcept;

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::size_t limit(MemoryPart part) const noexcept;
  [[nodiscard]] std::size_t held() const noexcept;
  [[nodiscard]] std::size_t held(MemoryPart part) const noexcept;
  /// How often it refused.
  [[nodiscard]] std::size_t refusals(MemoryPart part) const noexcept;

 private:
  struct Count {
    std::size_t held = 0;
    std::size_t refusals = 0;
  };

  [[nodiscard]] static std::size_t index(MemoryPart part) noexcept {
    return static_cast<std::size_t>(part);
  }
  [[nodiscard]] std::size_t all() const noexcept ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] std::size_t requests() const noexcept ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] std::size_t missing(MemoryPart part, std::size_t bytes) const noexcept
      ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] bool has_share(MemoryPart part, std::size_t bytes,
                               const MemoryAccount& account) const noexcept
      ONCEBOX_REQUIRES(mutex_);
  /// What all may hold when this part takes more.
  [[nodiscard]] std::size_t ceiling(MemoryPart part) const noexcept;
  void add(MemoryPart part, std::size_t bytes, MemoryAccount& account) noexcept
      ONCEBOX_REQUIRES(mutex_);

  const std::size_t limit_;
  mutable detail::Mutex mutex_;
  std::array<Count, kMemoryParts> counts_ ONCEBOX_GUARDED_BY(mutex_);
};

/// Bytes that are counted in a budget until this is destroyed. One that was made without an account
/// counts nothing and is never refused. Not safe from two threads at once.
class MemoryHold {
 public:
  MemoryHold() noexcept = default;
  MemoryHold(std::shared_ptr<MemoryAccount> account, MemoryPart part) noexcept
      : account_(std::move(account)), part_(part) {}
  ~MemoryHold() { release(); }
  MemoryHold(MemoryHold&& other) noexcept
      : account_(std::move(other.account_)),
        part_(other.part_),
        bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryHold& operator=(MemoryHold&& other) noexcept;

  /// Counts so many from now on. False, and changes nothing, when there is no room for more.
  [[nodiscard]] bool resize(std::size_t bytes) noexcept;
  /// The same in any case: for what is there already.
  void force(std::size_t bytes) noexcept;
  void release() noexcept { force(0); }

  /// How many more it may count now.
  [[nodiscard]] std::size_t room() const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  [[nodiscard]] const std::shared_ptr<MemoryAccount>& account() const noexcept { return account_; }
  /// Whether its part of the budget, or all of it, is nearly taken.
  [[nodiscard]] bool is_short() const noexcept {
    return account_ && account_->memory->is_short(part_);
  }

 private:
  std::shared_ptr<MemoryAccount> account_;
  MemoryPart part_ = MemoryPart::callers;
  std::size_t bytes_ = 0;
};

}  // namespace oncebox::server
