#include "http/giving_way.hpp"

#include <chrono>
#include <tuple>

namespace oncebox::server {

namespace {

/// An honest client needs no longer to send what it came for.
constexpr std::chrono::seconds kGrace{1};
/// What an address may have of the places before its new connections lose their grace.
constexpr std::size_t kShareDivisor = 4;

bool may_replace(const ClientAddress& newcomer, const Connection& connection, std::size_t places,
                 SteadyTime now) {
  const Connection::Waits waits = connection.waits();
  if (waits == Connection::Waits::for_nothing) return false;
  const ClientAddress* const address = connection.address();
  if (address == nullptr) return false;  // it is about to go
  const bool has_waited = now - connection.waits_since() >= kGrace;
  const bool is_reading = waits == Connection::Waits::for_reader;
  if (!has_waited && (is_reading || address == &newcomer)) return false;
  if (address == &newcomer) return true;
  const std::size_t count = address->connections.load();
  if (count <= newcomer.connections.load()) return false;
  return has_waited || count > places / kShareDivisor;
}

}  // namespace

Connection* choose_to_give_way(const EventLoop& loop, const ClientAddress& newcomer,
                               std::size_t places, SteadyTime now) {
  // Less goes first.
  const auto rank = [&newcomer](const Connection& connection) {
    return std::tuple(connection.address() == &newcomer, connection.waits(),
                      connection.waits_since());
  };
  Connection* chosen = nullptr;
  for (Connection* const connection : loop.connections()) {
    if (chosen != nullptr && rank(*chosen) <= rank(*connection)) continue;
    if (!may_replace(newcomer, *connection, places, now)) continue;
    chosen = connection;
    // They came in this order, so no other one has been without a request for longer.
    if (connection->address() != &newcomer && connection->waits() == Connection::Waits::for_head) {
      break;
    }
  }
  return chosen;
}

bool can_give_way(const EventLoop& loop, const ClientAddress& newcomer, std::size_t places,
                  std::size_t bytes, SteadyTime now) {
  std::size_t found = 0;
  for (const Connection* const connection : loop.connections()) {
    if (found >= bytes) break;
    if (may_replace(newcomer, *connection, places, now)) found += connection->place_bytes();
  }
  return found >= bytes;
}

}  // namespace oncebox::server
