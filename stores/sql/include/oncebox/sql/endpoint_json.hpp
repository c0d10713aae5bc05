#pragma once

#include <string>
#include <string_view>

#include "oncebox/endpoint_store.hpp"

namespace oncebox::sql {

/// What an endpoint is set to, without its name, as a JSON object that a person can read.
[[nodiscard]] std::string to_json(const Endpoint& endpoint);
[[nodiscard]] std::string to_json(const EndpointStatus& status);

/// Read what `to_json` wrote. Throw `corrupt` when the text is anything else.
[[nodiscard]] Endpoint endpoint_from_json(std::string_view name, std::string_view text);
[[nodiscard]] EndpointStatus endpoint_status_from_json(std::string_view text);

/// `SELECT name, endpoint, status`, from the column `first` on.
template <class Row>
EndpointRecord read_stored_endpoint(const Row& row, int first = 0) {
  return {endpoint_from_json(row.text(first), row.text(first + 1)),
          endpoint_status_from_json(row.text(first + 2))};
}

}  // namespace oncebox::sql
