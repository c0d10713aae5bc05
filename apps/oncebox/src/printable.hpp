#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Text from elsewhere, made fit for a terminal.
namespace oncebox::app {

/// Replaces what could drive a terminal or hide something: control characters and bytes that are
/// not UTF-8 become \n, \t, \xNN; characters that turn the direction of text, or are not seen,
/// \u{NNNN}. Everything else stays, also the backslash.
[[nodiscard]] std::string printable(std::string_view text);

/// The same, but line feeds and tabs stay: for texts of several lines.
[[nodiscard]] std::string printable_lines(std::string_view text);

/// The columns that valid UTF-8 without control characters takes on a terminal: wide characters
/// take two, combining ones none.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// The text cut to at most `width` columns, with an ellipsis where something is missing.
[[nodiscard]] std::string fitted(std::string_view text, std::size_t width);

}  // namespace oncebox::app
