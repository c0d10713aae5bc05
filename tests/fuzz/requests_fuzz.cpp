// The bytes of a connection: whatever pieces they come in, they are the same requests. A parser
// that reads them in two ways is what request smuggling needs.

#include <variant>

#include "fuzz_input.hpp"
#include "http/incoming_request.hpp"
#include "http/request_parser.hpp"

namespace {

using namespace oncebox;
using server::BadRequest;
using server::RequestParser;

constexpr std::size_t kMaxBody = 2'000;

/// What a connection was understood to say, as text.
class Connection {
 public:
  static constexpr std::string_view kRefused = "bad\n";

  void feed(std::string_view bytes) {
    pending_ += bytes;
    while (!is_broken_ && step()) {
    }
  }

  [[nodiscard]] const std::string& understood() const { return understood_; }
  [[nodiscard]] std::string understood_and_refused() const {
    return understood_ + std::string(kRefused);
  }

 private:
  /// Whether it came any further.
  bool step() { return in_body_ ? read_body() : read_head(); }

  bool read_head() {
    auto result = parser_.read_head(pending_);
    if (const auto* bad = std::get_if<BadRequest>(&result)) return refuse(*bad);
    auto* head = std::get_if<RequestParser::Head>(&result);
    if (head == nullptr) return false;
    fuzz::require(head->consumed > 0 && head->consumed <= pending_.size(), "a head has bytes");
    pending_.erase(0, head->consumed);
    in_body_ = head->head.has_body();
    const std::string target = head->head.target;
    server::Request request = server::make_request(std::move(head->head), "peer");
    const auto bad_target = server::read_target_into(request, target);
    understood_ += std::string(to_string(request.method)) + ' ' + target +
                   (bad_target ? " refused\n" : " understood\n");
    for (const auto& [name, value] : request.fields) understood_ += name + ':' + value + '\n';
    parser_.set_body_limit(kMaxBody);
    body_.clear();
    return true;
  }

  bool read_body() {
    auto result = parser_.read_body(pending_, body_);
    if (const auto* bad = std::get_if<BadRequest>(&result)) return refuse(*bad);
    const auto& body = std::get<RequestParser::Body>(result);
    fuzz::require(body.consumed <= pending_.size(), "a body is no longer than its bytes");
    fuzz::require(body_.size() <= kMaxBody, "a body keeps its limit");
    pending_.erase(0, body.consumed);
    if (body.complete) {
      understood_ += "body " + body_ + '\n';
      in_body_ = false;
    }
    return body.complete || body.consumed > 0;
  }

  bool refuse(const BadRequest& bad) {
    fuzz::require(bad.status >= 400 && bad.status < 600, "a refusal has a status of its own");
    understood_ += kRefused;
    is_broken_ = true;
    return false;
  }

  RequestParser parser_{{}};
  std::string pending_;
  std::string body_;
  std::string understood_;
  bool in_body_ = false;
  bool is_broken_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::size_t piece = input.choice(16) + 1;
  Connection whole;
  whole.feed(input.rest());
  Connection in_pieces;
  for (std::string_view rest = input.rest(); !rest.empty();) {
    in_pieces.feed(rest.substr(0, piece));
    rest.remove_prefix(std::min(piece, rest.size()));
  }
  // One may still wait for the end of what the other has refused: no server goes on with either.
  fuzz::require(whole.understood() == in_pieces.understood() ||
                    whole.understood() == in_pieces.understood_and_refused() ||
                    whole.understood_and_refused() == in_pieces.understood(),
                "pieces change nothing");
  return 0;
}
