#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "environment_proxy.hpp"
#include "host_lanes.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/curl/handles.hpp"
#include "oncebox/webhook/webhook_client.hpp"

namespace oncebox::webhook {

/// One request on its way, as libcurl sees it: all that it is told, and all that it calls. Stays
/// where it is while its handle is in use.
class Transfer {
 public:
  /// The others are borrowed.
  Transfer(WebhookRequest request, const WebhookClientOptions& options,
           const EnvironmentProxy& proxy);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Why it cannot be sent; empty when it can.
  [[nodiscard]] std::string_view problem() const noexcept { return problem_; }
  /// Whose connections it takes.
  [[nodiscard]] HostLanes::LaneName lane() const { return {request_.lane, request_.group}; }
  /// As a whole.
  [[nodiscard]] Duration timeout() const noexcept { return timeout_; }

  /// Tells the handle everything. Throws as `curl::set` does.
  void prepare(CURL* handle, Duration time_left);
  /// What came of it.
  [[nodiscard]] WebhookAnswer answer(CURL* handle, CURLcode code, const Clock& clock);

 private:
  /// Who connects.
  enum class Way {
    direct,       ///< we do, to public addresses alone
    proxy,        ///< a proxy, which is said to look at addresses
    environment,  ///< whoever the environment names, to any address
  };

  void read_url(const EnvironmentProxy& proxy);
  void choose_way(std::string_view scheme, std::string_view host, const EnvironmentProxy& proxy);
  void make_fields();
  void choose_connection(CURL* handle);
  [[nodiscard]] std::string failure_of(CURLcode code) const;
  [[nodiscard]] std::optional<Duration> retry_after(const Clock& clock) const;

  static curl_socket_t open_socket(void* self, curlsocktype purpose,
                                   curl_sockaddr* address) noexcept;
  static int check_peer(void* self, char* peer, char* own, int peer_port, int own_port) noexcept;
  static std::size_t take_line(char* line, std::size_t size, std::size_t count,
                               void* self) noexcept;
  static std::size_t take_body(char* bytes, std::size_t size, std::size_t count,
                               void* self) noexcept;

  WebhookRequest request_;
  const WebhookClientOptions& options_;
  const Duration timeout_;
  std::string problem_;
  Way way_ = Way::direct;
  std::string proxy_url_;
  curl::FieldList fields_;

  std::size_t head_bytes_ = 0;
  std::size_t body_bytes_ = 0;
  std::string retry_after_;  ///< the field's value
  std::string body_;
  bool is_cut_ = false;
  bool is_head_too_long_ = false;
  bool met_private_address_ = false;
};

}  // namespace oncebox::webhook
