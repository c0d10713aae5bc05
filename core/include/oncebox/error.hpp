#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace oncebox {

/// Every way in which a call can fail, sorted by what the caller can do about it. The list is
/// closed: each backend maps its native errors to these codes in one place.
///
/// An expected outcome (a duplicate, a lost lease, a busy key) is never an error; it is a value.
enum class ErrorCode {
  invalid_argument,  ///< The text or combination is not acceptable; the call will never succeed.
  out_of_range,      ///< A number, duration or time lies outside the documented range.
  not_found,         ///< A name that must exist does not.
  conflict,          ///< The state does not allow the call, for example a newer schema.
  overloaded,        ///< A limit is reached; nothing changed; try again later or raise the limit.
  unavailable,       ///< The backend cannot be reached; nothing changed; try again.
  timeout,           ///< The deadline passed before the call began to change anything; try again.
  cancelled,         ///< The caller's stop token ended the call before it changed anything.
  outcome_unknown,  ///< The call may or may not have taken effect; repeating the same call is safe.
  unsupported,      ///< This backend or build cannot do it.
  corrupt,          ///< Stored data contradicts itself; a person must look.
  internal,         ///< A defect in Oncebox.
};

/// The code as a lower-case word, for example "invalid_argument".
[[nodiscard]] std::string_view to_string(ErrorCode code) noexcept;

/// True when repeating the same call unchanged may succeed.
[[nodiscard]] bool is_retryable(ErrorCode code) noexcept;

/// The only exception type that Oncebox throws on purpose. The text says what is wrong and what to
/// do next; it never contains a payload or a secret.
///
/// Unless the code is `outcome_unknown`, a call that throws has changed nothing.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] bool retryable() const noexcept { return is_retryable(code_); }

 private:
  ErrorCode code_;
};

}  // namespace oncebox
