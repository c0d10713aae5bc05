#pragma once

#include <string_view>

#include "oncebox/headers.hpp"

namespace oncebox {

/// A message as its receiver looks at it: the headers, and the payload already decoded. Both are
/// borrowed; make one where it is used.
///
///     receiver.receive({.headers = headers, .payload = order});
template <class Payload>
struct Envelope {
  const Headers& headers;
  const Payload& payload;
  /// Of a stored message. Empty: the header `messageId` has it, if anything does.
  std::string_view id = {};
};

}  // namespace oncebox
