// Every body that the service, or a client of it, reads. What can be read can be written, and what
// was written reads as the same.

#include "bodies.hpp"
#include "fuzz_input.hpp"

namespace {

using namespace oncebox;

/// The first line names the kind of body. A line that names none, as most that the fuzzer makes up,
/// means one kind nevertheless.
const fuzz::Body& body_of(std::string_view line) {
  if (const fuzz::Body* const named = fuzz::find_body(line)) return *named;
  std::size_t sum = 0;
  for (const char letter : line) sum = sum * 31 + static_cast<unsigned char>(letter);
  return fuzz::bodies()[sum % fuzz::bodies().size()];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const fuzz::Body& body = body_of(input.line());
  std::string written;
  fuzz::may_refuse([&] { written = body.rewrite(input.rest()); });
  if (!written.empty()) {
    fuzz::require(body.rewrite(written) == written, "what was written reads as the same");
  }
  return 0;
}
