#pragma once

#include "http/http_message.hpp"

namespace oncebox::server {

/// What a body is, by its Content-Type.
enum class MediaType {
  none,    ///< the sender does not say
  json,    ///< application/json
  ndjson,  ///< application/x-ndjson, application/ndjson or application/jsonl: one value a line
  other,   ///< anything else, also JSON in another encoding than UTF-8
};

[[nodiscard]] MediaType media_type(const Fields& fields) noexcept;

}  // namespace oncebox::server
