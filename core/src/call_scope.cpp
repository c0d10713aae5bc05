#include "oncebox/driver/call_scope.hpp"

#include <optional>

namespace oncebox {

namespace {

const CallOptions kUnlimited;

/// Null: no limits.
thread_local constinit const CallOptions* limits_in_force = nullptr;

}  // namespace

Error CallOptions::error() const {
  if (stop.stop_requested()) {
    return {ErrorCode::cancelled, "the call was stopped by its stop token; nothing changed"};
  }
  return {ErrorCode::timeout, "the deadline of the call has passed; nothing changed"};
}

struct CallScope::Joined {
  Joined(const CallOptions& outer, const CallOptions& inner)
      : limits{.deadline = inner.deadline ? outer.deadline_or(*inner.deadline) : outer.deadline,
               .stop = inner.stop.stop_possible() ? inner.stop : outer.stop} {
    if (!inner.stop.stop_possible() || !outer.stop.stop_possible()) return;
    limits.stop = either.emplace().get_token();
    on_outer.emplace(outer.stop, Request{*either});
    on_inner.emplace(inner.stop, Request{*either});
  }

  struct Request {
    void operator()() const noexcept { source.request_stop(); }
    std::stop_source& source;
  };

  CallOptions limits;
  std::optional<std::stop_source> either = {};
  std::optional<std::stop_callback<Request>> on_outer = {};
  std::optional<std::stop_callback<Request>> on_inner = {};
};

CallScope::CallScope(const CallOptions& call) : outer_(limits_in_force) {
  if (call.is_limited() && outer_ != nullptr) joined_ = std::make_unique<Joined>(*outer_, call);
  const CallOptions* const limits = joined_ ? &joined_->limits : call.is_limited() ? &call : outer_;
  if (limits == nullptr) return;
  limits->throw_if_over();
  limits_in_force = limits;
}

CallScope::~CallScope() { limits_in_force = outer_; }

const CallOptions& CallScope::current() noexcept {
  return limits_in_force != nullptr ? *limits_in_force : kUnlimited;
}

LimitsOf::LimitsOf() noexcept : outer_(limits_in_force) { limits_in_force = nullptr; }

LimitsOf::LimitsOf(const CallOptions& somebody) noexcept : outer_(limits_in_force) {
  limits_in_force = somebody.is_limited() ? &somebody : nullptr;
}

LimitsOf::~LimitsOf() { limits_in_force = outer_; }

}  // namespace oncebox
