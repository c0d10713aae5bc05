#pragma once

#include <memory>

#include "oncebox/call_options.hpp"

namespace oncebox {

/// The limits of the call that this thread makes, for authors of stores. The public calls of the
/// contracts open a scope before they call `do_…`; whatever waits below asks `CallScope::current()`
/// how long it may. So limits pass through stores that forward, observe or count.
///
/// Within a scope others may be opened: then the deadline is the earlier one, and the stop of
/// either counts. Work that is not the caller's belongs into `LimitsOf`.
class CallScope {
 public:
  /// Throws as `CallOptions::throw_if_over` when a limit is over that holds from now on. Borrows
  /// the limits.
  explicit CallScope(const CallOptions& call);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  /// What holds on this thread now: no limits outside of every scope. Valid until the scope ends.
  [[nodiscard]] static const CallOptions& current() noexcept;

 private:
  struct Joined;

  const CallOptions* const outer_;
  std::unique_ptr<Joined> joined_;  ///< when both this scope and an outer one have limits
};

/// For the time of a block these limits hold and no others: those of somebody whose work this
/// thread does, by default of nobody. Borrows the limits.
class LimitsOf {
 public:
  LimitsOf() noexcept;
  explicit LimitsOf(const CallOptions& somebody) noexcept;
  ~LimitsOf();
  LimitsOf(const LimitsOf&) = delete;
  LimitsOf& operator=(const LimitsOf&) = delete;

 private:
  const CallOptions* const outer_;
};

}  // namespace oncebox
