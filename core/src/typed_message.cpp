#include "oncebox/detail/typed_message.hpp"

#include "oncebox/error.hpp"

namespace oncebox::detail {

void require_no_payload(const Payload& payload) {
  if (payload.size() == 0) return;
  throw Error(ErrorCode::invalid_argument,
              "payload: it is given twice; leave it out of a message that is sent with a value");
}

void note_content_type(Headers& headers, std::string_view content_type) {
  if (content_type.empty() || headers.content_type()) return;
  headers.set(header_names::kContentType, content_type);
}

}  // namespace oncebox::detail
