#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/http_message.hpp"
#include "http/request_parser.hpp"

namespace oncebox::server {

/// Makes the request that handlers see. Its id is the client's, when that is short and printable,
/// or a new one. A malformed `traceparent` is dropped.
[[nodiscard]] Request make_request(RequestHead head, const std::string& peer);

/// Fills in path and query from the target, and the field Host from a target that names a host
/// where there is no such field; says why not when they cannot be read, or when target and field
/// name two hosts.
[[nodiscard]] std::optional<BadRequest> read_target_into(Request& request, std::string_view target);

/// A request of which nothing could be read but where it came from.
[[nodiscard]] Request make_unreadable_request(const std::string& peer);

/// The part of a W3C traceparent that every version has; nothing when the text is none.
[[nodiscard]] std::optional<std::string_view> read_traceparent(std::string_view text) noexcept;

}  // namespace oncebox::server
