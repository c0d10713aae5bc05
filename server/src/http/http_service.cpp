#include "http/http_service.hpp"

#include <algorithm>
#include <array>

namespace oncebox::server {

namespace {

/// So many at a time are told that there are too many.
constexpr std::size_t kMaxRefusing = 64;

/// Addresses without a connection are looked for when there are so many more than connections.
constexpr std::size_t kMaxForgotten = 64;

/// Clients may hold half of what the process may take. The other half is for the server itself:
/// threads, what stores and the allocator keep, messages while they are read and written.
std::size_t budget_of(const HttpLimits& limits) { return limits.memory_bytes / 2; }

}  // namespace

ConnectionPlace& ConnectionPlace::operator=(ConnectionPlace&& other) noexcept {
  if (this == &other) return *this;
  release();
  service_ = other.service_;
  kind_ = std::exchange(other.kind_, Kind::none);
  address_ = std::move(other.address_);
  memory_ = std::move(other.memory_);
  return *this;
}

void ConnectionPlace::release() noexcept {
  memory_.release();
  const Kind kind = std::exchange(kind_, Kind::none);
  if (kind != Kind::none) service_->release(kind, address_.get());
}

HttpService::HttpService(const ServerOptions& options, const Router& router,
                         const Authenticator& authenticator, Logger& logger, HttpObserver& observer,
                         const Clock& clock)
    : limits_(options.limits),
      access_log_(options.access_log),
      gate_(options, router, authenticator),
      heads_(options),
      logger_(logger),
      observer_(observer),
      clock_(clock),
      memory_(std::make_shared<MemoryBudget>(budget_of(limits_))) {}

std::shared_ptr<ClientAddress> HttpService::address_of(const std::string& peer) {
  std::string client = network_of(peer);
  const detail::Lock lock(mutex_);
  if (addresses_.size() > 2 * served_ + kMaxForgotten) {
    std::erase_if(addresses_, [](const auto& entry) { return entry.second.expired(); });
  }
  std::weak_ptr<ClientAddress>& known = addresses_[std::move(client)];
  auto address = known.lock();
  if (!address) known = address = std::make_shared<ClientAddress>(memory_);
  return address;
}

std::shared_ptr<MemoryAccount> HttpService::account_of(const std::string& principal) {
  const detail::Lock lock(mutex_);
  std::shared_ptr<MemoryAccount>& account = principals_[principal];
  if (!account) account = std::make_shared<MemoryAccount>(memory_);
  return account;
}

ConnectionPlace HttpService::admit(const std::shared_ptr<ClientAddress>& address,
                                   std::size_t bytes) noexcept {
  MemoryHold memory(address, MemoryPart::connections);
  if (!memory.resize(bytes)) return {};
  {
    const detail::Lock lock(mutex_);
    if (served_ >= limits_.max_connections) return {};
    ++served_;
  }
  ++address->connections;
  observer_.on_connections(+1);
  return {*this, ConnectionPlace::Kind::served, address, std::move(memory)};
}

std::size_t HttpService::places(std::size_t bytes) const noexcept {
  return std::min(limits_.max_connections, memory_->limit(MemoryPart::connections) / bytes);
}

ConnectionPlace HttpService::refuse() noexcept {
  observer_.on_refused_connection();
  const detail::Lock lock(mutex_);
  if (refused_ >= kMaxRefusing) return {};
  ++refused_;
  return {*this, ConnectionPlace::Kind::refused, nullptr, {}};
}

void HttpService::release(ConnectionPlace::Kind kind, ClientAddress* address) noexcept {
  const bool is_served = kind == ConnectionPlace::Kind::served;
  if (is_served) {
    --address->connections;
    observer_.on_connections(-1);
  }
  const detail::Lock lock(mutex_);
  if (!is_served) {
    --refused_;
  } else if (--served_ == 0) {
    none_left_.notify_all();
  }
}

void HttpService::limit_wait(Duration within) {
  const detail::Lock lock(mutex_);
  give_up_at_ = std::min(give_up_at_, clock_.steady() + within);
  none_left_.notify_all();
}

bool HttpService::wait_for_connections() {
  const detail::Lock lock(mutex_);
  while (served_ != 0 && clock_.steady() < give_up_at_) {
    none_left_.wait_until(mutex_, give_up_at_);
  }
  return served_ == 0;
}

void HttpService::record(const Request& request, const HttpObserver::Answered& answered,
                         const std::string& cause) noexcept {
  observer_.on_request(answered);
  if (!cause.empty()) {
    const std::array fields{LogField("request_id", request.id), LogField("route", answered.route),
                            LogField("cause", cause), LogField("store", request.store)};
    write(LogLevel::error, "request failed", fields, request);
  }
  if (access_log_ == AccessLog::off) return;
  if (access_log_ == AccessLog::errors && answered.status < 400) return;
  const bool has_route = answered.route != kNoRoute;
  const auto took = std::chrono::duration<double, std::milli>(answered.took).count();
  const std::array fields{
      LogField("method", answered.method),
      LogField(has_route ? "route" : "path", has_route ? answered.route : request.path),
      LogField("status", answered.status),
      LogField("ms", static_cast<double>(static_cast<std::int64_t>(took * 1000)) / 1000),
      LogField("bytes_in", answered.bytes_in),
      LogField("bytes_out", answered.bytes_out),
      LogField("peer", request.peer),
      LogField("request_id", request.id),
      LogField("principal", request.principal.name),
      LogField("store", request.store)};
  write(LogLevel::info, "request", fields, request);
}

void HttpService::write(LogLevel level, std::string_view text, std::span<const LogField> fields,
                        const Request& request) noexcept {
  if (!logger_.enabled(level)) return;
  // The last one says which store it was about, if it was about one.
  logger_.write(level, text, request.store.empty() ? fields.first(fields.size() - 1) : fields);
}

}  // namespace oncebox::server
