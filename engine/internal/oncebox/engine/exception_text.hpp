#pragma once

#include <string>

namespace oncebox::detail {

/// The name of the type of the exception that is being handled.
[[nodiscard]] std::string current_exception_type();

/// What is kept of the exception that is being handled: its text, cut to `limits::kMaxErrorBytes`,
/// or its type when it has none. "no memory" when there is none for more.
[[nodiscard]] std::string current_exception_text() noexcept;

}  // namespace oncebox::detail
