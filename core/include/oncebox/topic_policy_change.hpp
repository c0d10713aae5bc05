#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/retry_policy.hpp"
#include "oncebox/topic_limits.hpp"

namespace oncebox {

/// What a change does to one field of a rule. It leaves the field as it is, unless it is given a
/// value, which sets the field, or `std::nullopt`, which clears it.
template <class T>
class FieldChange {
 public:
  constexpr FieldChange() = default;
  constexpr FieldChange(std::nullopt_t /*clear*/) noexcept : leaves_(false) {}
  template <class Value = T>
    requires std::convertible_to<Value, T>
  constexpr FieldChange(Value&& value)
      : leaves_(false), value_(static_cast<T>(std::forward<Value>(value))) {}
  /// A list of delays.
  FieldChange(std::initializer_list<Duration> values)
    requires std::constructible_from<T, std::initializer_list<Duration>>
      : leaves_(false), value_(values) {}

  [[nodiscard]] constexpr bool leaves() const noexcept { return leaves_; }
  [[nodiscard]] constexpr bool clears() const noexcept { return !leaves_ && !value_; }
  /// What the field is set to; nothing when it is left or cleared.
  [[nodiscard]] constexpr const std::optional<T>& value() const noexcept { return value_; }

  friend bool operator==(const FieldChange&, const FieldChange&) = default;

 private:
  bool leaves_ = true;
  std::optional<T> value_ = {};
};

/// How a rule for topics is to change, field by field; see `TopicPolicy` for what they mean. A
/// field that is cleared is inherited again, a limit or a pause is lifted.
///
///     store.policies().update(QueueKind::inbox, "order.*",
///                             {.max_attempts = 5, .max_delay = std::nullopt});
struct TopicPolicyChange {
  struct Limits {
    FieldChange<std::size_t> max_concurrency = {};
    FieldChange<RateLimit> rate = {};

    friend bool operator==(const Limits&, const Limits&) = default;
  };

  FieldChange<int> max_attempts = {};
  FieldChange<Duration> backoff = {};  ///< once set it replaces the delays
  /// Once set they replace the backoff. An empty list clears.
  FieldChange<std::vector<Duration>> delays = {};
  FieldChange<Duration> max_delay = {};
  FieldChange<Jitter> jitter = {};
  FieldChange<Duration> give_up_after = {};
  FieldChange<int> max_deliveries = {};
  Limits limits = {};
  FieldChange<bool> paused = {};  ///< false is the same as cleared

  /// Throws as `TopicPolicy::validate` does for what is set.
  void validate() const;

  /// Whether it leaves everything as it is.
  [[nodiscard]] bool empty() const noexcept { return *this == TopicPolicyChange{}; }

  friend bool operator==(const TopicPolicyChange&, const TopicPolicyChange&) = default;
};

}  // namespace oncebox
