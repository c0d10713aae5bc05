#include "oncebox/wire/encoding.hpp"
