#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "oncebox/error.hpp"
#include "oncebox/idempotency_store.hpp"

namespace oncebox {

/// What became of a message (PKT-01).
enum class ReceiveStatus {
  processed,    ///< the handler ran, here and now
  duplicate,    ///< the handler was not called; `original` says how the first one stands
  replayed,     ///< the handler was not called; `result` is the one of the first
  missing_key,  ///< there was no key, and the policy refuses that
  busy,         ///< somebody else is at it; come again
};

[[nodiscard]] std::string_view to_string(ReceiveStatus status) noexcept;

/// How the work stands that a duplicate repeats.
enum class OriginalState { running, completed, failed };

[[nodiscard]] std::string_view to_string(OriginalState state) noexcept;

/// The key of a message, or none. Borrowed from the message when it was there to be pointed at,
/// owned when it was computed: a view and a reference are borrowed, a temporary string is taken.
class SelectedKey {
 public:
  SelectedKey() = default;
  SelectedKey(std::nullopt_t /*none*/) {}
  SelectedKey(std::string_view borrowed) : text_(borrowed) {}
  SelectedKey(const char* borrowed) : text_(std::string_view(borrowed)) {}
  SelectedKey(const std::string& borrowed) : text_(std::string_view(borrowed)) {}
  SelectedKey(std::string&& owned) : text_(std::move(owned)) {}
  SelectedKey(std::optional<std::string_view> borrowed)
      : text_(borrowed.value_or(std::string_view())) {}
  SelectedKey(std::optional<std::string>&& owned) : text_(std::move(owned).value_or("")) {}

  [[nodiscard]] std::string_view text() const noexcept {
    const auto* const borrowed = std::get_if<std::string_view>(&text_);
    return borrowed != nullptr ? *borrowed : std::string_view(*std::get_if<std::string>(&text_));
  }
  /// Nothing but white space: no key at all.
  [[nodiscard]] bool blank() const noexcept {
    const std::string_view key = text();
    if (!key.empty() && key.front() > ' ') return false;  // as a rule
    return key.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
  }
  /// From now on the text is its own.
  void own() {
    if (std::holds_alternative<std::string_view>(text_)) text_ = std::string(text());
  }

 private:
  std::variant<std::string_view, std::string> text_;
};

/// The handler has succeeded, but the store did not take that: `outcome_unknown`. The work must not
/// be counted as failed. Until the lease ends the key is busy; unless the completion is repeated by
/// then, the next message with this key calls the handler again.
class UnrecordedSuccess : public Error {
 public:
  /// `cause` is the store's last error.
  UnrecordedSuccess(CompleteRequest completion, std::string_view cause);

  /// What is to be repeated: `keys.complete(error.completion())`. Holds the result, as it was to be
  /// stored.
  [[nodiscard]] const CompleteRequest& completion() const noexcept { return completion_; }

 private:
  CompleteRequest completion_;
};

/// What a receiver answers.
template <class Result>
struct Received {
  ReceiveStatus status = ReceiveStatus::missing_key;
  /// Blank without one. Valid as long as the message that it was received with, unless `own`ed.
  SelectedKey key = {};
  std::optional<Result> result = {};           ///< when processed or replayed
  std::optional<OriginalState> original = {};  ///< when a duplicate, replayed or busy
  std::optional<std::string> error = {};       ///< why the original failed
  /// The handler ran and has succeeded, but too slowly: somebody else began the key meanwhile, and
  /// theirs is the result that is stored.
  bool lease_lost = false;
  /// When processed, and the store did not take that; only with `UnrecordedPolicy::answer`.
  std::shared_ptr<const UnrecordedSuccess> unrecorded = {};

  /// Whether the work of this message is done, now or before.
  [[nodiscard]] bool done() const noexcept {
    return status == ReceiveStatus::processed || status == ReceiveStatus::replayed ||
           (status == ReceiveStatus::duplicate && original == OriginalState::completed);
  }
};

}  // namespace oncebox
