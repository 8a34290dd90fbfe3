# SPDX-License-Identifier: Apache-2.0
# embed.cmake : files as C arrays, with the hash that a Content-Security-Policy names them by.
#
#   cmake -DOUT=assets.c -DWEB=web -DSCRIPT=page.js -DSTILLS=stills.js -DNOTICES=notices.txt -DMISSING=reason
#         -P embed.cmake
#
# SCRIPT, STILLS and NOTICES are empty when figures are not built; MISSING then says why. The output depends on nothing but
# the files' contents: no times, no folders.

# The 64 hexadecimal digits of a SHA-256, as base64.
function(base64 hex out)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  string(APPEND hex "00") # 33 bytes make eleven groups of three; the last character of the last group is padding
  foreach(group RANGE 0 10)
    math(EXPR from "${group} * 6")
    string(SUBSTRING "${hex}" ${from} 6 bytes)
    math(EXPR bits "0x${bytes}")
    foreach(shift 18 12 6 0)
      math(EXPR at "(${bits} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${at} 1 letter)
      string(APPEND text "${letter}")
    endforeach()
  endforeach()
  string(SUBSTRING "${text}" 0 43 text)
  set(${out} "${text}=" PARENT_SCOPE)
endfunction()

# An array named `array` with the bytes of `file` (none: empty), and the initialiser of its es_asset.
function(embed array name file out)
  set(hash "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") # of nothing
  set(bytes "0")
  set(size 0)
  if(file)
    file(READ "${file}" hex HEX)
    string(LENGTH "${hex}" size)
    math(EXPR size "${size} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    file(SHA256 "${file}" hash)
  endif()
  base64(${hash} hash)
  file(APPEND "${OUT}.new" "static const unsigned char ${array}[] = {${bytes}};\n")
  set(${out} "{\"${name}\", ${array}, ${size}, \"sha256-${hash}\"}" PARENT_SCOPE)
endfunction()

file(WRITE "${OUT}.new" "/* Made from web/ by cmake/embed.cmake. */\n#include \"report/assets.h\"\n\n")
embed(style_bytes style "${WEB}/page.css" style)
embed(script_bytes script "${SCRIPT}" script)
embed(stills_bytes stills "${STILLS}" stills)
embed(notices_bytes notices "${NOTICES}" notices)
file(GLOB abouts "${WEB}/about/*.html")
list(SORT abouts)
set(count 0)
set(list "")
foreach(file ${abouts})
  get_filename_component(name "${file}" NAME_WE)
  embed(about_${count} ${name} "${file}" asset)
  string(APPEND list "    ${asset},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(APPEND "${OUT}.new" "
const es_asset es_asset_style = ${style};
const es_asset es_asset_script = ${script};
const es_asset es_asset_stills = ${stills};
const es_asset es_asset_notices = ${notices};
const es_asset es_asset_abouts[] = {
${list}    {\"\", 0, 0, \"\"}};
const size_t es_asset_abouts_count = ${count};
const char es_asset_missing[] = \"${MISSING}\";
")
file(RENAME "${OUT}.new" "${OUT}")
