#pragma once

#include <string>
#include <string_view>

namespace oncebox::detail {

/// How a character is written that must not reach a terminal or a log as it is: a control character
/// (C0, DEL, C1), or one that turns the direction of text, ends a line unseen, or is not seen at
/// all. All other characters stay as they are.
enum class EscapeStyle {
  printed,  ///< for people: \n, \t, \x1b, \u{202e}; what is not UTF-8 becomes \xff
  lines,    ///< the same, but line feeds and tabs stay: for texts of several lines
  quoted,   ///< between quotes in a line of text: as `printed`, but \x0a; also \" and \\ .
  json,     ///< between quotes in JSON: \u202e, \" and \\ ; what is not UTF-8 becomes U+FFFD
};

/// Appends the text in this style, without quotes around it.
void append_escaped(std::string& out, std::string_view text, EscapeStyle style);

}  // namespace oncebox::detail
