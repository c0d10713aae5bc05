#include "cutting_proxy.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "libpq_keywords.hpp"
#include "oncebox/testing/tcp_proxy.hpp"

namespace oncebox::postgresql {

namespace {

std::uint32_t read_length(std::string_view bytes) {
  std::uint32_t number = 0;
  for (const char byte : bytes.substr(0, 4)) number = number << 8 | static_cast<std::uint8_t>(byte);
  return number;
}

/// Bytes of one direction, from which whole messages are taken.
class MessageBuffer {
 public:
  /// What is there is dealt with, and more can come.
  void append(std::string_view bytes) {
    bytes_.erase(0, taken_);
    taken_ = 0;
    bytes_ += bytes;
  }

  /// The next message; nothing when it is not complete. Valid until the next `append`.
  std::optional<std::string_view> take_message() { return take(kTypeBytes); }
  /// The same for the messages with which a connection begins: they have no type.
  std::optional<std::string_view> take_opening() { return take(0); }
  std::string_view take_all() {
    const std::string_view all = std::string_view(bytes_).substr(taken_);
    taken_ = bytes_.size();
    return all;
  }

 private:
  static constexpr std::size_t kTypeBytes = 1;
  static constexpr std::size_t kLengthBytes = 4;

  std::optional<std::string_view> take(std::size_t type_bytes) {
    const std::string_view rest = std::string_view(bytes_).substr(taken_);
    if (rest.size() < type_bytes + kLengthBytes) return std::nullopt;
    const std::size_t size = type_bytes + read_length(rest.substr(type_bytes));
    if (rest.size() < size) return std::nullopt;
    taken_ += size;
    return rest.substr(0, size);
  }

  std::string bytes_;
  std::size_t taken_ = 0;
};

/// The statements that a client sends together, and then waits for their results.
struct SentTogether {
  struct Statement {
    std::size_t begin;  ///< where its execution stands among the bytes
    std::string query;
  };

  std::string bytes = {};
  std::vector<Statement> statements = {};

  [[nodiscard]] bool commits() const {
    return std::any_of(statements.begin(), statements.end(),
                       [](const Statement& one) { return one.query == "COMMIT"; });
  }

  /// Whether no call fails with it: connections are set up, and announcements sent, by whoever
  /// comes first and by threads of their own; and what is lost is rolled back anyway.
  [[nodiscard]] bool is_housekeeping() const {
    if (statements.size() != 1) return false;
    const std::string& query = statements.front().query;
    return query.find("pg_notify") != std::string::npos ||
           query.find("plan_cache_mode") != std::string::npos || query.starts_with("LISTEN") ||
           query == "ROLLBACK";
  }
};

// Takes a text that ends with a zero from the front of a message's body.
std::string_view take_text(std::string_view& body) {
  const std::size_t end = std::min(body.find('\0'), body.size());
  const std::string_view text = body.substr(0, end);
  body.remove_prefix(std::min(end + 1, body.size()));
  return text;
}

/// The failures that are asked for.
struct Plan {
  std::optional<int> cut_before_step = {};
  std::optional<int> cut_answer_after = {};
  /// The server's process whose connection was cut.
  std::optional<int> struck = {};

  /// Counts a step of the connection to `server_process`; true when the failure is to strike in its
  /// place.
  bool strikes_here(int server_process) {
    if (!cut_before_step) return false;
    if ((*cut_before_step)-- > 0) return false;
    cut_before_step.reset();
    struck = server_process;
    return true;
  }
};

class PostgresqlConversation final : public testing::TcpProxy::Conversation {
 public:
  using Link = testing::TcpProxy::Link;

  PostgresqlConversation(Plan& plan, std::size_t& answered_bytes)
      : plan_(plan), answered_bytes_(answered_bytes) {}

  void on_client_bytes(std::string_view bytes, Link& link) override {
    from_client_.append(bytes);
    while (phase_ == Phase::opening) {
      constexpr std::uint32_t kTlsRequest = 80'877'103;
      constexpr std::uint32_t kGssRequest = 80'877'104;
      const auto opening = from_client_.take_opening();
      if (!opening) return;
      const std::uint32_t code = read_length(opening->substr(4));
      asked_for_encryption_ = code == kTlsRequest || code == kGssRequest;
      if (!asked_for_encryption_) phase_ = Phase::speaking;
      link.send_to_server(*opening);
    }
    if (phase_ == Phase::opaque) link.send_to_server(from_client_.take_all());
    if (phase_ != Phase::speaking) return;
    while (const auto message = from_client_.take_message()) {
      on_client_message(*message, link);
      if (link.is_cut()) return;
    }
  }

  void on_server_bytes(std::string_view bytes, Link& link) override {
    answered_bytes_ += bytes.size();
    if (phase_ != Phase::speaking) {
      if (asked_for_encryption_ && bytes == "S") phase_ = Phase::opaque;
      return link.send_to_client(bytes);
    }
    from_server_.append(bytes);
    while (const auto message = from_server_.take_message()) {
      on_server_message(*message, link);
      if (link.is_cut()) return;
    }
  }

 private:
  enum class Phase {
    opening,   ///< the client has not said yet who it is
    speaking,  ///< messages go to and fro
    opaque,    ///< TLS: nothing can be read
  };

  void on_client_message(std::string_view message, Link& link) {
    const char type = message.front();
    std::string_view body = message.substr(5);
    if (type == 'P') {
      const std::string_view name = take_text(body);
      queries_.insert_or_assign(std::string(name), std::string(take_text(body)));
    }
    if (type == 'B') {
      take_text(body);  // the portal
      bound_query_ = queries_[std::string(take_text(body))];
    }
    if (type == 'E') exchange_.statements.push_back({exchange_.bytes.size(), bound_query_});
    exchange_.bytes += message;
    const bool is_part = std::string_view("PBDEC").find(type) != std::string_view::npos;
    if (!is_part) forward(std::exchange(exchange_, {}), link);
  }

  void forward(const SentTogether& exchange, Link& link) {
    const std::string_view bytes = exchange.bytes;
    if (exchange.statements.empty() || exchange.is_housekeeping())
      return link.send_to_server(bytes);
    for (const SentTogether::Statement& statement : exchange.statements) {
      if (!plan_.strikes_here(server_process_)) continue;
      link.send_to_server(bytes.substr(0, statement.begin));
      return link.cut();
    }
    if (!exchange.commits() && plan_.strikes_here(server_process_)) {
      constexpr std::size_t kSyncBytes = 5;
      link.send_to_server(bytes.substr(0, bytes.size() - kSyncBytes));
      return link.cut();
    }
    link.send_to_server(bytes);
    holds_answers_ = plan_.cut_answer_after.has_value();
  }

  void on_server_message(std::string_view message, Link& link) {
    constexpr char kProcessAndSecret = 'K';
    if (message.front() == kProcessAndSecret)
      server_process_ = static_cast<int>(read_length(message.substr(5)));
    if (!holds_answers_) return link.send_to_client(message);
    held_answers_ += message;
    if (message.front() != 'Z') return;
    const bool is_over = message.back() == 'I' && plan_.cut_answer_after;
    if (is_over && (*plan_.cut_answer_after)-- == 0) {
      plan_.cut_answer_after.reset();
      plan_.struck = server_process_;
      link.drop_answers();
      return link.cut();
    }
    holds_answers_ = false;
    link.send_to_client(held_answers_);
    held_answers_.clear();
  }

  Plan& plan_;
  std::size_t& answered_bytes_;  ///< of all conversations
  Phase phase_ = Phase::opening;
  bool asked_for_encryption_ = false;
  int server_process_ = 0;
  MessageBuffer from_client_;
  MessageBuffer from_server_;
  std::map<std::string, std::string, std::less<>> queries_;  ///< by the statement's name
  std::string bound_query_;
  SentTogether exchange_;
  bool holds_answers_ = false;
  std::string held_answers_;
};

}  // namespace

class CuttingProxy::Impl {
 public:
  explicit Impl(const std::string& server)
      : keywords(read_libpq_url(server)),
        proxy(static_cast<std::uint16_t>(std::stoi(keywords.at("port"))),
              [this] { return std::make_unique<PostgresqlConversation>(plan, answered_bytes); }) {
    keywords["host"] = "127.0.0.1";
    keywords["port"] = std::to_string(proxy.port());
    keywords["sslmode"] = "disable";
    keywords["gssencmode"] = "disable";
  }

  LibpqKeywords keywords;
  Plan plan;
  std::size_t answered_bytes = 0;
  testing::TcpProxy proxy;  // last: its thread uses the plan and counts
};

CuttingProxy::CuttingProxy(const std::string& server) : impl_(std::make_unique<Impl>(server)) {}

CuttingProxy::~CuttingProxy() = default;

std::string CuttingProxy::connection() const { return to_connection_string(impl_->keywords); }

void CuttingProxy::cut_before(int step) {
  impl_->proxy.between_conversations([&] {
    impl_->plan.struck.reset();
    impl_->plan.cut_before_step = step;
  });
}

void CuttingProxy::cut_answer(int skip) {
  impl_->proxy.between_conversations([&] {
    impl_->plan.struck.reset();
    impl_->plan.cut_answer_after = skip;
  });
}

std::optional<int> CuttingProxy::disarm() {
  std::optional<int> struck;
  impl_->proxy.between_conversations([&] { struck = std::exchange(impl_->plan, {}).struck; });
  return struck;
}

void CuttingProxy::cut_all() { impl_->proxy.cut_all(); }

void CuttingProxy::freeze() { impl_->proxy.freeze(); }

void CuttingProxy::thaw() { impl_->proxy.thaw(); }

void CuttingProxy::delay_answers(std::chrono::milliseconds by) { impl_->proxy.delay_answers(by); }

std::size_t CuttingProxy::answered_bytes() {
  std::size_t bytes = 0;
  impl_->proxy.between_conversations([&] { bytes = impl_->answered_bytes; });
  return bytes;
}

std::size_t CuttingProxy::connections() const { return impl_->proxy.connections(); }

}  // namespace oncebox::postgresql
