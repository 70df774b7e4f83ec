# SOMA_IMAGES_FOUND: whether PNG::PNG, of libpng 1.6 or newer, and JPEG::JPEG are there. Used by soma itself and by the
# installed package.
if(NOT TARGET PNG::PNG)
  find_package(PNG 1.6 QUIET)
endif()
if(NOT TARGET JPEG::JPEG)
  find_package(JPEG QUIET)
endif()
set(SOMA_IMAGES_FOUND FALSE)
if(TARGET PNG::PNG AND TARGET JPEG::JPEG)
  set(SOMA_IMAGES_FOUND TRUE)
endif()
